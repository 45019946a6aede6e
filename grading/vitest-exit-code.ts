import type { TestProject } from 'vitest/node'

/**
 * After a vitest run of checks, sets the exit codes of `make check-N`: 2 if a step could not be checked or none was judged,
 * so that a run without results never counts as a pass; 1 and 0 are vitest's own.
 */
export default function watchRun({ name, vitest }: TestProject): () => void {
  return () => {
    const modules = vitest.state.getTestModules().filter(({ project }) => project.name === name)
    const verdicts = modules
      .flatMap(({ children }) => [...children.allTests()])
      .flatMap((test) => test.meta().verdict ?? [])
    if (verdicts.includes('could not check')) process.exitCode = 2
    if (verdicts.some((verdict) => verdict !== 'not applicable')) return
    process.exitCode = 2
    console.error('No step was judged: none of the chosen steps can be checked here.')
  }
}
