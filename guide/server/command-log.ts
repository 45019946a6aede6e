// Which command of the terminals changed the nodes: by the times at which it started and ended, and by what it can do.

/** After its end a command still has effects: kube-proxy, kubelet and controllers act later. */
const EFFECT_MS = 15_000
/** A change that comes later than that, but not later than this, has its reason probably in the command. */
const LATE_MS = 60_000
const MOST = 200

interface LoggedCommand {
  terminal: string
  text: string
  startedAt: number
  endedAt?: number
}

/** The commands of all terminals, with the times (milliseconds since 1970) at which their shells reported them. */
export class CommandLog {
  #commands: LoggedCommand[] = []

  /** A command starts in a terminal; one before it there has ended, also where its shell did not report it. */
  started(terminal: string, text: string | undefined, at = Date.now()): void {
    this.ended(terminal, at)
    if (text === undefined) return
    this.#commands = [...this.#commands, { terminal, text, startedAt: at }].slice(-MOST)
  }

  /** The command of a terminal has ended. */
  ended(terminal: string, at = Date.now()): void {
    const running = this.#commands.findLast((one) => one.terminal === terminal)
    if (running) running.endedAt ??= at
  }

  /**
   * What changed the nodes between two reads: the command that ran then or, if none did, the last one before (`after …` if that was long before);
   * `while … ran` if several ran. Commands that only read are left out. Undefined if there is none.
   */
  culprit(from: number, to: number): string | undefined {
    const changing = this.#commands.filter(
      ({ text, startedAt }) => startedAt <= to && !isReading(text),
    )
    const running = changing.filter(({ endedAt = Number.POSITIVE_INFINITY }) => endedAt >= from)
    const [first, ...others] = [...new Set(running.map(({ text }) => text))]
    if (first !== undefined && others.length > 0)
      return `while ${[first, ...others].join(' and ')} ran`
    if (first !== undefined) return first
    const last = changing.toSorted((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0)).at(-1)
    if (last === undefined) return undefined
    const passedMs = from - (last.endedAt ?? 0)
    return passedMs < EFFECT_MS ? last.text : passedMs < LATE_MS ? `after ${last.text}` : undefined
  }
}

const KUBECTL_READS =
  /^(?:get|describe|logs|explain|wait|version|top|diff|events|cluster-info|api-resources|api-versions|auth|rollout status|config)\b/
const MAKE_READS =
  /^(?:-s )?(?:check-\d+|hint|answer|predict|status|trace|capture|env|aliases|doctor|kube-proxy-logs|help|slides|lint-labs|submit)\b/
/** What changes a node or the cluster among the words of a program that otherwise reads. */
const CHANGES: Record<string, RegExp> = {
  ip: /\s(?:add|del|delete|set|change|replace|flush|append|exec)\b/,
  iptables:
    /\s-[ADIRFXZNPE]\b|\s-[a-z]*[ADIRFXZNPE](?=\s|$)|--(?:append|delete|insert|replace|flush|new|policy)/,
  ip6tables: /\s-[ADIRFXZNPE]\b|--(?:append|delete|insert|replace|flush|new|policy)/,
  ipset: /^ipset\s+(?!list|save|test|-L|-S)/,
  ipvsadm: /\s-[ACDEadeRZ]\b|\s--(?:add|edit|delete|clear|restore|set|zero)/,
  conntrack: /\s-[DIUF]\b|--(?:delete|create|update|flush)/,
  nft: /^nft\s+(?!(?:-\w+\s+)*list|monitor)/,
  sysctl: /\s-w\b|=/,
}
const READS =
  /^(?:curl|wget|nslookup|dig|host|ping|nc|echo|printf|cat|ls|grep|head|tail|sort|uniq|wc|awk|sed|cut|tr|jq|sleep|watch|true|false|ss|tcpdump|nstat|ps|id|date|cd|pwd|history|clear|man|less|iptables-save|ip6tables-save|ipt|ipv|ips|export|unset|eval|read|test|uname|lsmod|getent|node)\b/
const ASSIGNMENT = /^[A-Za-z_]\w*=(?:\$\(([^)]*)\)|'[^']*'|"[^"$]*"|[^\s'"$]*|\$\w+)\s*/
const INNER = /\bCMD=(?:'([^']*)'|"([^"]*)")/

/**
 * Whether a command line can only read: each of its parts is a program that does not change the nodes or the cluster. A form that
 * is not known counts as a change.
 */
export function isReading(line: string): boolean {
  return partsOf(line).every((part) => isReadingPart(part.trim()))
}

/** The commands of a line: what `;`, `|`, `&&` and `||` separate outside of quotes and of `$(…)`. */
function partsOf(line: string): string[] {
  const parts = ['']
  let quote = ''
  let depth = 0
  for (const letter of line) {
    quote = quoteAfter(letter, quote)
    if (quote !== "'" && letter === '(') depth++
    if (quote !== "'" && letter === ')') depth--
    if (quote === '' && depth === 0 && /[;|&]/.test(letter)) parts.push('')
    else parts[parts.length - 1] += letter
  }
  return parts
}

/** The quote that is open after a letter, or an empty text; `open` is the one before it. */
function quoteAfter(letter: string, open: string): string {
  if (letter === open) return ''
  const isQuote = letter === "'" || letter === '"'
  return open === '' && isQuote ? letter : open
}

function isReadingPart(part: string): boolean {
  let command = part
  for (let found = ASSIGNMENT.exec(command); found; found = ASSIGNMENT.exec(command)) {
    if (found[1] !== undefined && !isReading(found[1])) return false
    command = command.slice(found[0].length)
  }
  if (command === '' || command.startsWith('#')) return true
  const [program = '', ...args] = command.split(/\s+/)
  const rest = args.join(' ')
  if (program === 'kubectl') return readsWithKubectl(rest)
  if (program === 'make') {
    const inner = INNER.exec(command)
    if (inner && /^(?:-s )?exec\b/.test(rest)) return isReading(inner[1] ?? inner[2] ?? '')
    return MAKE_READS.test(rest)
  }
  const changes = CHANGES[program]
  return changes ? !changes.test(command) : READS.test(command)
}

function readsWithKubectl(args: string): boolean {
  const verb = args.replace(/^(?:-n|--namespace)[ =]\S+ /, '')
  if (!verb.startsWith('exec ')) return KUBECTL_READS.test(verb)
  const inner = / -- (.*)$/.exec(verb)?.[1]
  return inner !== undefined && isReading(inner)
}
