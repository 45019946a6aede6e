import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { $ } from 'zx'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { engineReason, hasImage } from '../../cluster/kind/engine.ts'
import {
  bakedName,
  bakeNodeImage,
  loadLabImages,
  nodeImage,
  pinnedImage,
  podImages,
} from '../../cluster/kind/images.ts'
import { stopBalancer } from '../../cluster/kind/load-balancer/appliance.ts'
import { KindCluster } from '../../cluster/kind.ts'
import { cachedKind } from '../../cluster/programs.ts'
import { type Purpose, selectCluster } from '../../cluster/select.ts'
import { kindFolder, projectRoot } from '../../host/layout.ts'
import { processStartTime } from '../../host/live-process.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { FakeEngine } from './fake-engine.ts'

interface Container {
  image?: string
  imagePullPolicy?: string
}
interface Containers {
  containers?: Container[]
}

const name = `fake-${process.pid}`
const whole = { 'control-plane': 'running', worker: 'running', worker2: 'running' } as const
let engine: FakeEngine
let cluster: KindCluster

beforeEach(async () => {
  engine = new FakeEngine()
  await engine.start()
  vi.stubEnv('PATH', engine.path)
  vi.stubEnv('IMAGE', '')
  cluster = new KindCluster(name)
})
afterEach(() => {
  vi.unstubAllEnvs()
  engine.stop()
  rmSync(kindFolder(name), { recursive: true, force: true })
})

const keepKubeconfig = () => {
  mkdirSync(dirname(cluster.kubeconfig), { recursive: true })
  writeFileSync(cluster.kubeconfig, engine.read('kubeconfig'))
}

describe('make up on kind', () => {
  test.each([
    ['kind', (long: string) => new KindCluster(long)],
    ['embedded', (long: string) => new EmbeddedCluster(long)],
  ])(
    'a new %s cluster is refused a name that is too long for a label of its nodes; make down is not',
    async (_driver, named) => {
      const long = named('a'.repeat(50))
      await expect(long.up(silent)).rejects.toThrow(/can't be the name of a cluster: .* at most 49/)
      expect(engine.deeds()).toEqual([])
      await long.down(silent)
    },
  )

  test('fetches a kubeconfig that was lost', async () => {
    engine.writeContainers(name, whole)
    engine.write('initialised')
    await cluster.up(silent)
    expect(engine.deeds()).toEqual(['kind export'])
    expect(existsSync(cluster.kubeconfig)).toBe(true)
  })

  test('replaces a cluster whose creation was interrupted before kubeadm had ended', async () => {
    engine.writeContainers(name, { 'control-plane': 'running', worker: 'running' })
    await cluster.up(silent)
    expect(engine.deeds()).toEqual(['kind export', 'kind delete', 'kind create'])
  })

  test('replaces a cluster with a node that never joined', async () => {
    engine.write('initialised')
    engine.writeContainers(name, whole)
    engine.apiNodes = [true]
    const up = cluster.up(silent)
    await waitFor('the creation', 5000, async () => engine.deeds().includes('kind create'))
    engine.apiNodes = [true, true, true]
    await up
    expect(engine.deeds()).toEqual(['kind export', 'kind delete', 'kind create'])
  })

  test.each([
    [
      'a node is gone',
      () => {
        engine.apiNodes = [true, true, true, true]
      },
    ],
    [
      'nodes lost what they knew of each other',
      () => {
        engine.apiNodes = [true]
        engine.writeContainers(name, { ...whole, worker: 'exited' })
      },
    ],
    [
      'the control plane can not be read',
      () => {
        engine.remove('initialised')
        rmSync(cluster.kubeconfig)
        engine.writeContainers(name, { ...whole, worker: 'exited' })
      },
    ],
  ])(
    'does not remove a cluster that was complete once without consent: %s',
    async (_what, damage) => {
      await cluster.up(silent)
      engine.write('initialised')
      engine.write('log')
      damage()
      await expect(cluster.up(silent)).rejects.toThrow(
        /^The kind cluster ".*" can't be restarted: .*Nothing was removed.*`YES=1 make up` removes it/,
      )
      expect(engine.deeds()).not.toContain('kind delete')
      expect(await cluster.exists()).toBe(true)
      vi.stubEnv('YES', '1')
      const up = cluster.up(silent)
      await waitFor('the creation', 5000, async () => engine.deeds().includes('kind create'))
      engine.apiNodes = [true, true, true]
      await up
      expect(engine.deeds().slice(-2)).toEqual(['kind delete', 'kind create'])
    },
  )

  test('waits for an API server that is slow after a restart of the engine, and reports it', async () => {
    await cluster.up(silent)
    engine.write('initialised')
    engine.write('log')
    engine.apiAnswers = false
    const lines: string[] = []
    const up = cluster.up({ ...silent, start: (line) => lines.push(line) })
    await waitFor('the look', 10_000, async () =>
      lines.some((line) => /Waiting for the API server/.test(line)),
    )
    engine.apiAnswers = true
    await up
    expect(lines.join()).toContain(
      `Waiting for the API server of "${name}" (up to ${300 * timeoutScale()} s)`,
    )
    expect(engine.deeds()).toEqual(['kind export'])
  })

  test('restarts nodes in the order of their addresses if a restart has exchanged them', async () => {
    const nodes = ['worker', 'control-plane', 'worker2'].map((node) => `${name}-${node}`)
    engine.write(
      'addresses',
      nodes.map((node, index) => `/${node} 172.18.0.${index + 9}\n`).join(''),
    )
    await cluster.up(silent)
    engine.write('initialised')
    engine.write('log')
    engine.write(
      'addresses',
      nodes.map((node, index) => `/${node} 172.18.0.${11 - index}\n`).join(''),
    )
    engine.writeContainers(name, { ...whole, worker: 'exited' })
    const notes: string[] = []
    await cluster.up({ ...silent, note: (line) => notes.push(line) })
    expect(notes.join()).toMatch(
      /exchanged addresses of nodes: .*-worker 172.18.0.11 instead of 172.18.0.9/,
    )
    expect(engine.read('log').match(/(?<=docker )(stop|start) .*/g)).toEqual([
      `start ${name}-worker`,
      expect.stringMatching(/^stop /),
      ...nodes.map((node) => `start ${node}`),
    ])
    engine.write('log')
    engine.writeContainers(name, { ...whole, worker: 'exited' })
    await cluster.up(silent)
    expect(engine.deeds()).toEqual(['docker start', 'kind export'])
  })

  test('unpauses a paused node', async () => {
    await cluster.up(silent)
    engine.write('initialised')
    engine.write('log')
    engine.writeContainers(name, { ...whole, worker: 'paused', worker2: 'exited' })
    expect(await cluster.running()).toBe(false)
    expect(await cluster.stoppedNodes()).toEqual([
      `${name}-worker (paused)`,
      `${name}-worker2 (exited)`,
    ])
    await cluster.up(silent)
    expect(engine.read('log')).toContain(`docker unpause ${name}-worker\n`)
    expect(engine.read('log')).toContain(`docker start ${name}-worker2\n`)
    expect(await cluster.running()).toBe(true)
  })

  test('is up only when the kubelets have reported since their nodes were started', async () => {
    await cluster.up(silent)
    expect(await cluster.running()).toBe(true)
    const names = [`${name}-control-plane`, `${name}-worker`, `${name}-worker2`]
    const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString()
    engine.write('started', names.map((one) => `/${one} "${at(30)}"\n`).join(''))
    engine.heartbeats = new Map(names.map((one) => [one, at(40)]))
    expect(await cluster.running()).toBe(true)
    engine.heartbeats.set(`${name}-worker`, at(20))
    expect(await cluster.running()).toBe(false)
  })

  test('a command that takes too long is ended', async () => {
    await cluster.up(silent)
    await expect(
      cluster.exec(`${name}-worker`, ['sleep', '30'], { timeoutMs: 300 }),
    ).rejects.toThrow(/did not end within 0.3 s/)
  })

  test('a shell runs on this terminal, and its exit code is that of its command', async () => {
    expect(await cluster.shell(`${name}-worker`, ['sh', '-c', 'exit 3'])).toBe(3)
    expect(engine.read('log')).toContain(`docker exec -i ${name}-worker sh -c exit 3`)
  })

  test('reports the reason of kind when it cannot create a cluster', async () => {
    engine.write('refuse')
    await expect(cluster.up(silent)).rejects.toThrow(
      /ERROR: failed to create cluster: no space left.*make doctor/,
    )
    expect(existsSync(kindFolder(cluster.name))).toBe(false)
  })

  test('uses the image that IMAGE names, or the one with the tools baked in', async () => {
    const baked = await bakeNodeImage('docker', pinnedImage(), silent)
    expect(baked).toBe(bakedName(pinnedImage()))
    expect(engine.read('recipe')).toMatch(
      /^FROM kindest\/node:\S+@sha256:\S+\nRUN apt-get .*ipset ipvsadm/,
    )
    expect(await nodeImage('docker')).toBe(pinnedImage())
    engine.write('label', `${pinnedImage()}\n`)
    expect(await nodeImage('docker')).toBe(baked)
    await cluster.up(silent)
    expect(engine.read('log')).toMatch(new RegExp(`kind create .*--image ${baked}$`, 'm'))
    vi.stubEnv('IMAGE', 'my/node:1')
    expect(await nodeImage('docker')).toBe('my/node:1')
  })

  test('an image that cannot be built is one sentence with the reason, also if that has no word such as "error"', async () => {
    engine.write('broken-build', 'E: Unable to locate package ipset\n')
    await expect(bakeNodeImage('docker', pinnedImage(), silent)).rejects.toThrow(
      /Unable to locate package ipset/,
    )
    engine.write(
      'broken-build',
      'Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host\n',
    )
    await expect(bakeNodeImage('docker', pinnedImage(), silent)).rejects.toThrow(
      /\(Get .* no such host\)/,
    )
  })

  test('an image that lost its digest in `docker load` is found, used and extended', async () => {
    const [tag = ''] = pinnedImage().split('@')
    engine.write('images', `${tag}\n`)
    expect(await hasImage('docker', pinnedImage())).toBe(true)
    expect(await nodeImage('docker')).toBe(tag)
    expect((await selectCluster('auto', name)).driver).toBe('kind')
    await cluster.up(silent)
    expect(engine.read('log')).toMatch(new RegExp(`kind create .*--image ${tag}$`, 'm'))
    await bakeNodeImage('docker', pinnedImage(), silent)
    expect(engine.read('recipe')).toMatch(new RegExp(`^FROM ${tag}\n`))
  })
})

/** The containers of the Pods and templates of a manifest. */
const containersIn = (file: string): Container[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).flatMap((document) => {
    const { spec } = document.toJS() as {
      spec?: { template?: { spec?: Containers }; containers?: Container[] }
    }
    return spec?.containers ?? spec?.template?.spec?.containers ?? []
  })

describe('the images of the labs', () => {
  const agent = 'busybox:1.37'

  test('are those of every manifest, and no Pod pulls a newer one', () => {
    const files = readdirSync(join(projectRoot, 'labs'), { recursive: true, encoding: 'utf8' })
      .filter((file) => /manifests\/[^/]+\.yaml$/.test(file))
      .map((file) => join(projectRoot, 'labs', file))
    expect(files.length).toBeGreaterThan(8)
    for (const { image, imagePullPolicy } of files.flatMap(containersIn)) {
      // A patch of a Deployment names the container only.
      if (image === undefined) continue
      const isTagged = image.includes(':')
      expect(podImages).toContain(isTagged ? image : `${image}:latest`)
      expect(isTagged ? 'IfNotPresent' : imagePullPolicy, image).toBe('IfNotPresent')
    }
  })

  test('are loaded into the nodes by `make up`, from the engine, which fetches missing ones', async () => {
    engine.write('images', 'nginx:latest\nnginx:1.27\n')
    engine.write('node-images', 'docker.io/library/nginx:1.27\n')
    engine.write('registry')
    await cluster.up(silent)
    const netshoot = 'nicolaka/netshoot@sha256:[0-9a-f]{64}'
    expect(engine.read('log')).toMatch(new RegExp(`docker pull ${netshoot}$`, 'm'))
    expect(engine.read('log')).toMatch(
      new RegExp(`docker tag ${netshoot} nicolaka/netshoot:latest$`, 'm'),
    )
    expect(engine.read('log')).not.toMatch(/docker pull nginx/)
    expect(engine.read('log')).toMatch(
      new RegExp(
        `^kind load docker-image --name ${name} nginx:latest nicolaka/netshoot:latest ${agent}$`,
        'm',
      ),
    )
  })

  test('are pinned by their digest, except one that AGENT_IMAGE names', async () => {
    engine.write('images', '')
    engine.write('registry')
    engine.write('node-images', '')
    vi.stubEnv('AGENT_IMAGE', 'example.test/tools:7')
    await cluster.up(silent)
    const pulled = engine.read('log').match(/(?<=docker pull ).*/g) ?? []
    expect(pulled.filter((image) => !/@sha256:[0-9a-f]{64}$/.test(image))).toEqual([
      'example.test/tools:7',
    ])
    expect(pulled).toHaveLength(podImages.length + 1)
  })

  test('that cannot be fetched are reported, and the cluster is up; if none is missing, nothing is fetched', async () => {
    engine.write('images', 'nginx:latest\n')
    engine.write('node-images', '')
    const notes: string[] = []
    await cluster.up({ ...silent, note: (line) => notes.push(line) })
    expect(notes.join()).toMatch(
      /nginx:1.27, nicolaka\/netshoot:latest, busybox:1.37 could not be fetched \(its registry/,
    )
    expect(engine.read('log')).toMatch(/^kind load docker-image --name \S+ nginx:latest$/m)
    engine.write('log')
    engine.write(
      'node-images',
      [...podImages, agent]
        .map((image) => `docker.io/${image.includes('/') ? '' : 'library/'}${image}\n`)
        .join(''),
    )
    await cluster.up(silent)
    expect(engine.read('log')).not.toMatch(/docker (pull|manifest)|kind load/)
  })
})

/**
 * A `podman` that finds an image by its short name under localhost/, and saves only images with the
 * requested name.
 */
const podman = `#!/bin/sh
cd "$(dirname "$0")/.."
for last; do :; done
case "$1" in
  image) grep -qxF -e "$last" -e "localhost/$last" images ;;
  exec) cat node-images ;;
  tag) echo "$3" >>images ;;
  save) shift 4; for one; do grep -qxF "$one" images || { echo "Error: $one: image not known" >&2; exit 125; }; echo "$one"; done >saved ;;
esac
`

test("from an archive of Docker's get the names that the Pods use, with Podman too", async () => {
  writeFileSync(join(engine.folder, 'bin/podman'), podman)
  engine.write(
    'images',
    'localhost/nginx:latest\ndocker.io/library/nginx:1.27\nlocalhost/nicolaka/netshoot:latest\nlocalhost/busybox:1.37\n',
  )
  engine.write('node-images', 'docker.io/library/busybox:1.37\n')
  const asked: string[] = []
  const kind = async (args: string[]) => {
    asked.push(args.slice(0, 4).join(' '))
    return $({ quiet: true })`true`
  }
  await loadLabImages({ engine: 'podman', name, nodes: ['node'], kind }, silent)
  expect(asked).toEqual([`load image-archive --name ${name}`])
  expect(engine.read('saved').trim().split('\n')).toEqual([
    'docker.io/library/nginx:latest',
    'docker.io/library/nginx:1.27',
    'docker.io/nicolaka/netshoot:latest',
  ])
})

describe('the reason of an engine', () => {
  test.each([
    [
      "docker: Error response from daemon: OCI runtime create failed: unable to apply caps: operation not permitted.\n\nRun 'docker run --help' for more information\n",
      'Error response from daemon: OCI runtime create failed: unable to apply caps: operation not permitted',
    ],
    ["docker: invalid reference format.\nSee 'docker run --help'.\n", 'invalid reference format'],
    ['Error: failed to start containers: a\n', 'Error: failed to start containers: a'],
    ['', 'no reason was given'],
  ])('is its error, not the reference to its help: %j', (stderr, reason) => {
    expect(engineReason(stderr)).toBe(reason)
  })
})

describe('make up, interrupted', () => {
  const up = () => {
    const { NODE_OPTIONS: _, ...env } = process.env
    const script = spawn(process.execPath, ['scripts/start.mjs', 'scripts/up.ts'], {
      cwd: projectRoot,
      env: { ...env, NAME: name, CLUSTER: 'kind' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const printed: string[] = []
    script.stderr.on('data', (chunk: Buffer) => printed.push(chunk.toString()))
    const exit = new Promise<number | null>((resolve) => {
      script.on('exit', resolve)
    })
    return { script, exit, printed }
  }
  const creating = () => waitFor('kind to be at it', 15_000, async () => engine.has('creating'))
  const creator = () => Number(engine.read('creating'))

  test('Ctrl-C removes what there is and leaves no process', async () => {
    engine.write('hang')
    const { script, exit, printed } = up()
    await creating()
    script.kill('SIGINT')
    expect(await exit).toBe(130)
    expect(printed.join('')).toContain('Interrupted: removing the incomplete cluster')
    expect(engine.deeds()).toEqual(['kind create', 'kind delete'])
    expect(processStartTime(creator())).toBeUndefined()
  })

  test('after kill -9 the next one ends the creation that continued, and creates the cluster', async () => {
    engine.write('hang')
    const { script, exit } = up()
    await creating()
    await waitFor('the note', 5000, async () => existsSync(join(kindFolder(name), 'creation.json')))
    script.kill('SIGKILL')
    await exit
    expect(processStartTime(creator())).toBeDefined()
    engine.remove('hang')
    await cluster.up(silent)
    expect(processStartTime(creator())).toBeUndefined()
    expect(engine.deeds()).toEqual(['kind create', 'kind export', 'kind delete', 'kind create'])
    expect(await cluster.running()).toBe(true)
  })
})

describe('make down on kind', () => {
  test('deletes the cluster and its files; a second time it does nothing', async () => {
    await cluster.up(silent)
    await cluster.down(silent)
    await cluster.down(silent)
    expect(engine.deeds()).toEqual(['kind create', 'kind delete'])
    expect(existsSync(kindFolder(name))).toBe(false)
  })
})

test('an engine that stops responding does not hold up a command', async () => {
  engine.write('stuck')
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.01')
  await stopBalancer('docker', name)
  expect(engine.read('log')).toContain(`docker rm --force ${name}-load-balancer`)
})

describe('CLUSTER=auto', () => {
  const chosen = async (purpose?: Purpose) => {
    const notes: string[] = []
    const write = vi
      .spyOn(process.stderr, 'write')
      .mockImplementation((text) => notes.push(String(text)) > 0)
    try {
      const { driver } = await selectCluster('auto', name, purpose)
      return { driver, notes: notes.join('') }
    } finally {
      write.mockRestore()
    }
  }

  test('is kind if the engine has the node image, or its registry responds', async () => {
    engine.write('images', `${pinnedImage()}\n`)
    expect(await chosen()).toEqual({ driver: 'kind', notes: '' })
    engine.write('images')
    engine.write('registry')
    expect(await chosen()).toEqual({ driver: 'kind', notes: '' })
  })

  test('is embedded, with a one-line note, if an engine has neither image nor registry', async () => {
    const { driver, notes } = await chosen()
    expect(driver).toBe('embedded')
    expect(notes).toMatch(/^ • docker answers, but .*\n$/)
    expect(readFileSync(join(engine.folder, 'log'), 'utf8')).not.toMatch(/docker pull/)
  })

  test('is embedded without a note if no engine responds', async () => {
    engine.remove('engine')
    expect(await chosen()).toEqual({ driver: 'embedded', notes: '' })
  })

  test.skipIf(existsSync(cachedKind()))(
    'is embedded if kind can not be fetched for a new cluster',
    async () => {
      engine.write('images', `${pinnedImage()}\n`)
      engine.remove('bin/kind')
      vi.stubEnv('PATH', `${join(engine.folder, 'bin')}:/usr/bin:/bin`)
      vi.stubEnv('KIND_MIRROR', 'http://127.0.0.1:9/mirror')
      const { driver, notes } = await chosen({ creating: silent })
      expect(driver).toBe('embedded')
      expect(notes).toMatch(
        /^ • docker answers, but kind v\S+ is not installed and could not be fetched: [^\n]+\n$/,
      )
    },
  )

  test('names the engine of a kind cluster that was created here and whose engine is down, for every command', async () => {
    keepKubeconfig()
    engine.remove('engine')
    await expect(selectCluster('auto', name)).rejects.toThrow(
      /^The kind cluster ".*" was created here, but no Docker/,
    )
  })

  test('a lab that measures is refused before anything is started where its kernel can not run, on whichever cluster', async () => {
    // Without apt there is no User-Mode Linux.
    vi.stubEnv('PATH', join(engine.folder, 'bin'))
    const starting = (measures: boolean) => ({ lab: { number: 6, measures } })
    for (const requested of ['kind', 'embedded', 'auto'])
      await expect(selectCluster(requested, name, starting(true))).rejects.toThrow(
        /^Lab 6 can't run here, and nothing was started: it measures in User-Mode Linux, which can't run here \(.*"apt-get".*`make doctor`/,
      )
    expect((await selectCluster('kind', name, starting(false))).driver).toBe('kind')
    expect(engine.deeds()).toEqual([])
  })

  test('is the existing kind cluster, also an incomplete one, so that `make down` finds it', async () => {
    engine.writeContainers(name, { worker: 'exited' })
    expect((await chosen()).driver).toBe('kind')
  })

  test('other values select their cluster, and unknown ones are refused with the known ones', async () => {
    expect(await selectCluster('embedded', name)).toBeInstanceOf(EmbeddedCluster)
    expect(await selectCluster('kind', name)).toBeInstanceOf(KindCluster)
    await expect(selectCluster('minikube', name)).rejects.toThrow(
      /CLUSTER="minikube" is not known: use "auto"/,
    )
  })

  test('kind without an engine reports what to do, before anything is fetched', async () => {
    engine.remove('engine')
    engine.remove('bin/kind')
    vi.stubEnv('KIND_MIRROR', 'http://127.0.0.1:9/mirror')
    await expect(cluster.nodes()).rejects.toThrow(/^No Docker or Podman engine responds/)
    await expect(cluster.up(silent)).rejects.toThrow(/^No Docker or Podman engine responds/)
  })
})
