import { afterEach, describe, expect, test, vi } from 'vitest'
import { kernelProgram, sourcesOfRelease, withLoaderHere } from '../../machine/kernel-package.ts'

test('the sources of another release have the servers of the own one, each once, for main packages', () => {
  const targets = `bookworm main http://mirror.example/debian/
bookworm contrib http://mirror.example/debian/
bookworm-updates main http://mirror.example/debian/
bookworm-security main http://mirror.example/debian-security/
bookworm main http://mirror.example/debian/
stable main https://vendor.example/
`
  const keys = '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
  expect(sourcesOfRelease(targets, ['bookworm'], 'trixie')).toBe(
    `deb ${keys} http://mirror.example/debian/ trixie main\n`,
  )
  expect(sourcesOfRelease(targets, ['sid'], 'trixie')).toBe('')
})

test('only the path to the loader changes in the kernel', () => {
  const program = Buffer.from('\x7fELF…/lib64/ld-linux-x86-64.so.2\0rest')
  const changed = withLoaderHere(program)
  expect(changed.toString()).toBe(`\x7fELF…ld-linux-x86-64.so.2${'\0'.repeat(8)}rest`)
  expect(() => withLoaderHere(Buffer.from('#!/bin/sh\n'))).toThrow('has no loader')
})

test('the kernel is started with its shim, and with the libc of the host if it has none of its own', () => {
  const { command, directory } = kernelProgram('/nowhere')
  expect(command).toEqual(['env', 'LD_PRELOAD=./uml-shim.so', '/nowhere/usr/bin/linux.uml'])
  expect(directory).toBe('/nowhere/usr/lib/uml/libc')
})

describe('on another processor', () => {
  const own = process.arch
  const become = (arch: string) => Object.defineProperty(process, 'arch', { value: arch })
  const load = async (arch: string) => {
    become(arch)
    vi.resetModules()
    return {
      ...(await import('../../machine/packages.ts')),
      ...(await import('../../machine/kernel-package.ts')),
    }
  }
  afterEach(() => become(own))

  test('on arm64 the embedded cluster runs, User-Mode Linux is refused with the reason, and its package is not fetched', async () => {
    const { requireSupport, umlTrouble, kernelAddition, LIBRARIES, runFrom, processor } =
      await load('arm64')
    await expect(requireSupport()).resolves.toBeUndefined()
    await expect(requireSupport('uml')).rejects.toThrow(
      'User-Mode Linux is built for x86-64 only, and this is "arm64".',
    )
    expect(umlTrouble()).toBeDefined()
    expect(kernelAddition('/nowhere')).toBeUndefined()
    expect({ LIBRARIES, processor }).toMatchObject({
      LIBRARIES: 'usr/lib/aarch64-linux-gnu',
      processor: { name: 'aarch64', kubernetes: 'arm64' },
    })
    expect(runFrom('/root', 'usr/bin/env')[0]).toBe(
      '/root/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1',
    )
  })

  test('any other processor is refused with an alternative', async () => {
    const { requireSupport } = await load('riscv64')
    await expect(requireSupport()).rejects.toThrow(
      /^The embedded cluster runs on x86-64 and arm64, and this is "riscv64"\. .*`CLUSTER=kind make up`/,
    )
  })
})
