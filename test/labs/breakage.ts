/** Shell text, or a function that makes it from the facts of a cluster. */
type Shell<Facts> = string | ((facts: Facts) => string)

/** One thing to break on one node of a cluster, and the step that must fail. */
export interface Breakage<Facts> {
  what: string
  step: string
  break(facts: Facts): string
  repair?: (facts: Facts) => string
}

/**
 * The breakages of a table: step → what is broken → shell text, or an object with it, its repair
 * and other options.
 */
export function listBreakages<Facts, Options = object>(
  table: Record<
    string,
    Record<string, Shell<Facts> | ({ break: Shell<Facts>; repair?: Shell<Facts> } & Options)>
  >,
): (Breakage<Facts> & Options)[] {
  const textOf = (shell: Shell<Facts>) => (facts: Facts) =>
    typeof shell === 'function' ? shell(facts) : shell
  return Object.entries(table).flatMap(([step, breakages]) =>
    Object.entries(breakages).map(([what, entry]) => {
      const input =
        typeof entry === 'object' ? entry : ({ break: entry } as { break: Shell<Facts> } & Options)
      const {
        break: breaks,
        repair,
        ...options
      } = input as { break: Shell<Facts>; repair?: Shell<Facts> } & Options
      return {
        ...(options as Options),
        what,
        step,
        break: textOf(breaks),
        ...(repair !== undefined && { repair: textOf(repair) }),
      }
    }),
  )
}

/** Applies an edit to one table's text and loads it back in one step. */
export const editTable = (table: string, sed: string): string =>
  `iptables-save -c -t ${table} | sed -E '${sed}' | iptables-restore -c -T ${table}`

/** Deletes the rules of a table whose lines in `iptables-save` match a pattern. */
export const deleteRules = (table: string, pattern: string): string =>
  editTable(table, `/${pattern.replaceAll('/', '\\/')}/d`)

/** Deletes the first rule of a chain whose line in `iptables -S` matches a pattern. */
export const deleteRule = (chain: string, pattern: string, table = 'nat'): string => {
  const found = `NR > 1 && /${pattern.replaceAll('/', '\\/')}/ {print NR - 1; exit}`
  return `iptables -t ${table} -D ${chain} $(iptables -t ${table} -S ${chain} | awk '${found}')`
}
