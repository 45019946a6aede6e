import { expect, test } from 'vitest'
import { sourcesOfRelease } from '../../machine/apt-sources.ts'
import { kernelProgram, withLoaderHere } from '../../machine/kernel-package.ts'

test('the sources of another release: the same servers, keys and options, and nothing of what is switched off', () => {
  const files = [
    {
      name: 'debian.sources',
      text: `Types: deb deb-src
# a mirror of ours
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://other.example/debian
Suites:
 bookworm
Components: main
Enabled: no
`,
    },
    {
      name: 'sources.list',
      text: `# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/a.gpg] https://list.example/debian/ bookworm main non-free # ours
deb-src http://list.example/debian bookworm main
deb http://list.example/debian bookworm-backports main
deb http://list.example/debian bookworm contrib
`,
    },
    { name: 'vendor.list', text: 'deb https://vendor.example stable main\n' },
  ]
  expect(sourcesOfRelease(files, ['bookworm'], 'trixie')).toEqual([
    {
      name: 'debian.sources',
      text: `Types: deb
Suites: trixie
Components: main
URIs: http://mirror.example/debian
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`,
    },
    {
      name: 'sources.list',
      text: 'deb [arch=amd64 signed-by=/etc/apt/keyrings/a.gpg] https://list.example/debian/ trixie main\n',
    },
  ])
})

test('only the way to the loader changes in the kernel', () => {
  const program = Buffer.from('\x7fELF…/lib64/ld-linux-x86-64.so.2\0rest')
  const changed = withLoaderHere(program)
  expect(changed.toString()).toBe(`\x7fELF…ld-linux-x86-64.so.2${'\0'.repeat(8)}rest`)
  expect(() => withLoaderHere(Buffer.from('#!/bin/sh\n'))).toThrow('has no loader')
})

test("the kernel is started with the shim without which it dies on processors with AMX, with its own libc or the host's", () => {
  const { command, directory } = kernelProgram('/nowhere')
  expect(command).toEqual(['env', 'LD_PRELOAD=./xstate-shim.so', '/nowhere/usr/bin/linux.uml'])
  expect(directory).toBe('/nowhere/usr/lib/uml/libc')
})
