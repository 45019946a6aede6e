// Writes what a release consists of into dist/release-X.Y.Z; pushes and tags nothing: VERSION=0.2.0
// release.ts
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { $ } from 'zx/core'
import { main, Refusal } from '../host/main.ts'

/** What the lines of CHANGELOG.md below `## version` say, or nothing if it has no such section. */
function changesOf(changelog: string, version: string): string {
  const lines = changelog.split('\n')
  const start = lines.indexOf(`## ${version}`)
  if (start < 0) return ''
  const end = lines.findIndex((line, at) => at > start && line.startsWith('## '))
  return lines
    .slice(start + 1, end < 0 ? undefined : end)
    .join('\n')
    .trim()
}

/** Everything that is against a release of this version, one sentence each. */
async function faultsOf(version: string, changes: string): Promise<string[]> {
  const isVersion = /^\d+\.\d+\.\d+$/.test(version)
  const ofVersion = isVersion
    ? await versionFaults(version, changes)
    : [`VERSION="${version}" is not a version: write it as in make release VERSION=0.2.0.`]
  return [...(await changeFaults()), ...ofVersion]
}

async function versionFaults(version: string, changes: string): Promise<string[]> {
  const faults: string[] = []
  for (const file of ['package.json', 'package-lock.json']) {
    const named: { version?: string } = JSON.parse(readFileSync(file, 'utf8'))
    if (named.version !== version)
      faults.push(
        `${file} has the version "${named.version}", not "${version}": npm version --no-git-tag-version ${version} changes both files.`,
      )
  }
  if (changes === '')
    faults.push(`CHANGELOG.md has no text below "## ${version}": write what is new there.`)
  if ((await $`git tag --list ${`v${version}`}`).stdout.trim() !== '')
    faults.push(`The tag "v${version}" exists already: git show v${version} shows it.`)
  return faults
}

async function changeFaults(): Promise<string[]> {
  const { stdout } = await $`git status --porcelain`
  const [first] = stdout.trimEnd().split('\n')
  if (!first) return []
  return [`The tree has uncommitted changes, the first of them "${first}": git status lists them.`]
}

await main(async () => {
  $.quiet = true
  const { VERSION: version = '' } = process.env
  const changes = changesOf(readFileSync('CHANGELOG.md', 'utf8'), version)
  const faults = await faultsOf(version, changes)
  if (faults.length > 0) throw new Refusal(faults.join('\n ✗ '))

  const { name }: { name: string } = JSON.parse(readFileSync('package.json', 'utf8'))
  const commit = (await $`git rev-parse HEAD`).stdout.trim()
  const folder = `dist/release-${version}`
  const stem = `${name}-${version}`
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const archive = `${stem}.tar.gz`
  await $`git archive --format=tar.gz --prefix=${`${stem}/`} --output=${join(folder, archive)} ${commit}`
  // From the lock file, not from node_modules: these are the packages of every installation.
  const sbom = `${stem}.spdx.json`
  const { stdout } = await $`npm sbom --sbom-format=spdx --package-lock-only`
  writeFileSync(join(folder, sbom), stdout)
  const tagText = 'tag.txt'
  writeFileSync(join(folder, tagText), `${name} ${version}\n\n${changes}\n`)
  const sums = [archive, sbom, tagText].map((file) => {
    const digest = createHash('sha256').update(readFileSync(join(folder, file)))
    return `${digest.digest('hex')}  ${file}\n`
  })
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''))

  for (const file of [archive, sbom, tagText, 'SHA256SUMS']) console.log(` ✓ ${folder}/${file}`)
  console.log(`Nothing is tagged or pushed. Next:
  git tag --annotate --cleanup=whitespace --file=${folder}/${tagText} v${version} ${commit}
  git push origin v${version}
Then publish the files of ${folder} with the tag.`)
})
