import { spawn } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubectlPath } from '../../cluster/programs.ts'
import { silent } from '../../host/progress.ts'
import { shellWord } from '../../host/shell-word.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { quickKernel, runOn } from './quick-kernel.ts'

const cluster = new EmbeddedCluster(`habits-${process.pid}`)
const worker = `${cluster.name}-worker`
let env: NodeJS.ProcessEnv
let program: string

interface Outcome {
  code: number | null
  text: string
}

/**
 * Runs kubectl; each answer is typed when the text before it has appeared. Without `terminal`, its
 * input is a pipe.
 */
function kubectl(
  command: string,
  {
    answers = [],
    terminal = false,
    spdy = false,
  }: { answers?: [string, string][]; terminal?: boolean; spdy?: boolean } = {},
): Promise<Outcome> & { kill(): void; seen(): string } {
  const argv = [program, ...command.split(' ')]
  const line = `stty cols 101 rows 33; exec ${argv.map(shellWord).join(' ')}`
  const [file = '', ...args] = terminal
    ? ['script', '--quiet', '--flush', '--return', '--command', line, '/dev/null']
    : argv
  const websockets = {
    KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false',
    KUBECTL_PORT_FORWARD_WEBSOCKETS: 'false',
  }
  const child = spawn(file, args, { env: { ...env, ...(spdy && websockets) } })
  const open = [...answers]
  let text = ''
  let read = 0
  const look = (bytes: Buffer) => {
    text += bytes
    for (let next = open[0]; next && text.indexOf(next[0], read) >= 0; next = open[0]) {
      read = text.indexOf(next[0], read) + next[0].length
      child.stdin.write(`${next[1]}\n`)
      open.shift()
    }
  }
  child.stdout.on('data', look)
  child.stderr.on('data', look)
  if (!terminal && answers.length === 0) child.stdin.end()
  const timer = setTimeout(() => child.kill('SIGKILL'), 40_000 * timeoutScale())
  const outcome = new Promise<Outcome>((resolve) =>
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve({ code, text: text.replaceAll('\r', '') })
    }),
  )
  return Object.assign(outcome, { kill: () => child.kill(), seen: () => text })
}

// kubectl attaches with a size that is too large by one, then sends the right one.
const untilSized = 'until stty size | grep -x "33 101"; do :; done'

const ok = async (command: string): Promise<string> => {
  const { code, text } = await kubectl(command)
  expect(code, `${command}: ${text}`).toBe(0)
  return text
}

runOn(quickKernel)
beforeAll(async () => {
  await cluster.up(silent)
  program = await kubectlPath(silent)
  env = { ...process.env, KUBECONFIG: cluster.kubeconfig }
  await ok('run web --image=nginx')
  await ok('expose pod web --port=80')
  await ok('wait --for=condition=Ready pod/web --timeout=30s')
  // The Pods of the tests may run on another node than `web`.
  await cluster.synced(20_000)
  await waitFor('DNS and kube-proxy', 20_000, async () =>
    (await kubectl('exec web -- curl -s --max-time 1 web')).text.includes('Pod: web'),
  )
})

afterAll(() => cluster.down(silent))

describe.each([false, true])('kubectl, SPDY: %s', (spdy) => {
  const suffix = spdy ? 'spdy' : 'ws'

  test('run -it --rm has a prompt, the size of the terminal and the exit code, and leaves nothing', async () => {
    const answers: [string, string][] = [['# ', `${untilSized}; curl -s web; exit 3`]]
    const run = `run -it --rm shell-${suffix} --image=busybox --restart=Never -- sh`
    const { code, text } = await kubectl(run, { answers, terminal: true, spdy })
    expect(text).toContain('33 101\n')
    expect(text).toContain('Pod: web\n')
    expect(code).toBe(3)
    expect(await ok('get pods')).not.toContain(`shell-${suffix}`)
  })

  test('run -i --rm of a command that ends at once shows all of its output', async () => {
    const { text } = await kubectl(
      `run -i --rm quick-${suffix} --image=busybox --restart=Never -- echo printed`,
      {
        spdy,
      },
    )
    expect(text, text).toContain('printed\n')
  })

  test('exec -it starts with the size of the terminal', async () => {
    const { code, text } = await kubectl('exec -it web -- stty size', { terminal: true, spdy })
    expect([code, text.trim()]).toEqual([0, '33 101'])
  })

  test('attach shows the further output of a container, and ending it does not end the container', async () => {
    const attached = kubectl('attach web', { spdy })
    await waitFor('attach to be connected', 10_000, async () => {
      await ok('exec web -- curl -s localhost/attached')
      return attached.seen().includes('GET /attached')
    })
    attached.kill()
    await attached
    expect(await ok('get pod web')).toMatch(/1\/1\s+Running\s+0/)
  })

  test('port-forward to a Service serves several connections; a closed port is reported', async () => {
    const port = spdy ? 18_431 : 18_432
    const forward = kubectl(`port-forward svc/web ${port}:80`, { spdy })
    await waitFor('the forward to listen', 10_000, async () =>
      forward.seen().includes('Forwarding from'),
    )
    const pages = await Promise.all(
      [1, 2, 3].map(async () => (await fetch(`http://127.0.0.1:${port}`)).text()),
    )
    for (const page of pages) expect(page).toContain('Pod: web\n')
    forward.kill()
    await forward
    const closed = kubectl(`port-forward pod/web ${port}:81`, { spdy })
    await waitFor('the forward to listen', 10_000, async () =>
      closed.seen().includes('Forwarding from'),
    )
    await fetch(`http://127.0.0.1:${port}`).catch(() => {})
    const { text } = await closed
    expect(text).toContain(
      'error forwarding port 81 to pod web: connect to 127.0.0.1:81: Connection refused',
    )
  })
})

test('debug -it adds a container to a Pod: its network, and with --target its processes', async () => {
  const answers: [string, string][] = [['# ', `${untilSized}; curl -s localhost; ps -e; exit`]]
  const debug = 'debug -it web --image=busybox --profile=general'
  const alone = await kubectl(debug, { answers, terminal: true })
  expect(alone.text).toContain('33 101\n')
  expect(alone.text).toContain('Client: 127.0.0.1\n')
  expect(alone.text).not.toContain('nginx\n')
  const targeted = await kubectl(`${debug} --target=web`, { answers, terminal: true })
  expect(targeted.text).toMatch(/\s1 .* nginx\n/)
  expect(
    await ok(
      'get pod web -o jsonpath={.status.ephemeralContainerStatuses[*].state.terminated.exitCode}',
    ),
  ).toBe('0 0')
})

test('debug -it node/NAME is a shell on that node, with its file system at /host', async () => {
  const answers: [string, string][] = [
    ['# ', 'chroot /host hostname; chroot /host iptables-save | grep -c KUBE-; exit'],
  ]
  const { code, text } = await kubectl(
    `debug -it node/${worker} --image=busybox --profile=sysadmin`,
    {
      answers,
      terminal: true,
    },
  )
  expect(code).toBe(0)
  expect(text).toMatch(new RegExp(`${worker}\n[1-9]\\d+\n`))
})

test('ps shows start times', async () => {
  expect(await ok('exec web -- ps aux')).toMatch(/root +1 .*nginx: master/)
})

test('top shows CPU and memory of nodes and containers', async () => {
  await ok('run busy --image=busybox -- md5sum /dev/zero')
  await ok('wait --for=condition=Ready pod/busy --timeout=30s')
  expect(await ok('top pod busy --containers --no-headers')).toMatch(
    /busy +busy +[1-9]\d\d?\d?m +\d+Mi/,
  )
  expect(await ok('top pod web --no-headers')).toMatch(/web +\d{1,2}m +[1-9]\d*Mi/)
  await ok('delete pod busy --now')
  expect((await ok('top nodes --no-headers')).trim().split('\n')).toHaveLength(3)
})

test('a Pod with an unknown tag stays in ErrImagePull, and the old Pod continues to serve', async () => {
  await ok('create deployment tagged --image=nginx:1.27')
  await ok('rollout status deployment/tagged --timeout=30s')
  await ok('set image deployment/tagged nginx=nginx:9.99-nope')
  await waitFor('ErrImagePull', 10_000, async () =>
    /ErrImagePull/.test(await ok('get pods -l app=tagged')),
  )
  expect(await ok('get pods -l app=tagged')).toMatch(/1\/1\s+Running/)
  expect(await ok('describe pods -l app=tagged')).toContain(
    'Failed to pull image "nginx:9.99-nope": not found',
  )
})

test('a Job runs to its end; a CronJob is a template for more', async () => {
  await ok('create job once --image=busybox -- echo done')
  await ok('wait --for=condition=complete job/once --timeout=20s')
  expect(await ok('get job once')).toMatch(/once +Complete +1\/1/)
  expect(await ok('logs job/once')).toBe('done\n')
  await ok('create cronjob tick --image=busybox --schedule=@yearly -- true')
  await ok('create job manual --from=cronjob/tick')
  await ok('wait --for=condition=complete job/manual --timeout=20s')
  expect(await ok('get cronjob tick')).toMatch(/tick +@yearly +<none> +False/)
})

test('describe node finds the Lease, which the kubelet renews', async () => {
  expect(await ok(`describe node ${worker}`)).toMatch(new RegExp(`HolderIdentity: +${worker}`))
})

test.each([
  ['get networkpolicies', 'NetworkPolicy'],
  ['create ingress x --rule=a/b=c:80', 'Ingress'],
  ['autoscale deployment tagged --max=3', 'HorizontalPodAutoscaler'],
])('%s is refused by name', async (command, kind) => {
  expect((await kubectl(command)).text).toContain(`the embedded cluster has no ${kind}`)
})
