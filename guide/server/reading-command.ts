// Which command lines of a terminal can only read: what changed the nodes is none of them.

const KUBECTL_READS =
  /^(?:get|describe|logs|explain|wait|version|top|diff|events|cluster-info|api-resources|api-versions|auth can-i|auth whoami|rollout status|config)\b/
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
  /^(?:curl|wget|nslookup|dig|host|ping|nc|echo|printf|cat|ls|grep|head|tail|sort|uniq|wc|awk|sed|cut|tr|jq|sleep|true|false|ss|tcpdump|nstat|ps|id|date|cd|pwd|history|clear|man|less|iptables-save|ip6tables-save|ipt|ipv|ips|export|unset|read|test|uname|lsmod|getent|node)$/
const ASSIGNMENT = /^[A-Za-z_]\w*=/
/** A file below /proc or /sys that is written. */
const SETS_KERNEL = />\s*["']?\/(?:proc|sys)\//

/**
 * Whether a command line can only read: each of its commands, also those in `$(…)`, is a program
 * that does not change the nodes or the cluster. A form that is not known counts as a change.
 */
export function isReading(line: string): boolean {
  if (SETS_KERNEL.test(line)) return false
  const { commands, substituted } = new ShellLine(line)
  return commands.every(isReadingCommand) && substituted.every(isReading)
}

/**
 * What is open at a place of a command line: a quote, a group in parentheses, a substitution
 * `$(…)`, `<(…)` or with backticks.
 */
interface Open {
  kind: "'" | '"' | '(' | '$(' | '`'
  /** Where its text begins. */
  from: number
}

/** A command line as a shell divides it. */
class ShellLine {
  /** The words of each command, which `;`, `|`, `&` and line ends separate. */
  readonly commands: string[][] = [[]]
  /** The commands that are substituted, of the outermost substitutions. */
  readonly substituted: string[] = []
  readonly #line: string
  readonly #open: Open[] = []
  #word = ''

  constructor(line: string) {
    this.#line = line
    for (let at = 0; at < line.length; at++) {
      const isEscaped = line[at] === '\\' && this.#open.at(-1)?.kind !== "'"
      if (isEscaped) this.#word += line.slice(at, ++at + 1)
      else this.#take(line[at] ?? '', at)
    }
    this.#endWord()
  }

  #take(letter: string, at: number): void {
    const last = this.#open.at(-1)
    if (!last && this.#separates(letter, at)) {
      this.#endWord()
      if (!/[^\S\n]/.test(letter)) this.commands.push([])
      return
    }
    const kind = openedBy(letter, this.#line[at - 1], last)
    if (last && isClosing(letter, last)) this.#close(last, at)
    else if (kind) this.#open.push({ kind, from: at + 1 })
    this.#word += letter
  }

  /**
   * A blank ends a word, the others a command; in `2>&1` and `&>` the `&` is part of a redirection.
   */
  #separates(letter: string, at: number): boolean {
    if (letter === '&') return this.#line[at - 1] !== '>' && this.#line[at + 1] !== '>'
    return /[\s;|]/.test(letter)
  }

  #close({ kind, from }: Open, at: number): void {
    this.#open.pop()
    const isOutermost = !this.#open.some((one) => one.kind === '$(' || one.kind === '`')
    if ((kind === '$(' || kind === '`') && isOutermost)
      this.substituted.push(this.#line.slice(from, at))
  }

  #endWord(): void {
    if (this.#word !== '') this.commands.at(-1)?.push(this.#word)
    this.#word = ''
  }
}

const isClosing = (letter: string, { kind }: Open): boolean =>
  letter === (kind === '(' || kind === '$(' ? ')' : kind)

/** What a letter opens; within single quotes nothing, within double quotes only a substitution. */
function openedBy(letter: string, before: string | undefined, last: Open | undefined) {
  if (last?.kind === "'") return undefined
  if (letter === '`') return '`'
  if (letter === '(' && before === '$') return '$('
  if (last?.kind === '"') return undefined
  if (letter === '(' && (before === '<' || before === '>')) return '$('
  return letter === "'" || letter === '"' || letter === '(' ? letter : undefined
}

function isReadingCommand(command: readonly string[]): boolean {
  const first = command.findIndex((word) => !ASSIGNMENT.test(word))
  if (first === -1) return true
  const [program = '', ...args] = command.slice(first)
  if (program.startsWith('#')) return true
  const rest = args.join(' ')
  if (program === 'kubectl') return readsWithKubectl(args)
  if (program === 'make') return readsWithMake(args)
  if (program === 'eval') return isReading(unquoted(rest.replace(ONLY_SUBSTITUTED, '')))
  if (program === 'watch') return isReading(rest.replace(/^(?:-\S+\s+(?:[\d.]+\s+)?)*/, ''))
  const changes = CHANGES[program]
  return changes ? !changes.test(`${program} ${rest}`) : READS.test(program)
}

/** What `eval` is given: the output of a command, which was looked at as a substitution. */
const ONLY_SUBSTITUTED = /^"?\$\(.*\)"?$/s

/** A word without the quotes around it. */
const unquoted = (word: string): string => word.replace(/^(['"])(.*)\1$/s, '$2')

function readsWithMake(args: readonly string[]): boolean {
  const inner = args.find((word) => word.startsWith('CMD='))
  if (args.includes('exec')) return inner !== undefined && isReading(unquoted(inner.slice(4)))
  return MAKE_READS.test(args.join(' '))
}

function readsWithKubectl(args: readonly string[]): boolean {
  const verb = args.join(' ').replace(/^(?:-n|--namespace)[ =]\S+ /, '')
  if (!verb.startsWith('exec ')) return KUBECTL_READS.test(verb)
  const inner = args.slice(args.indexOf('--') + 1)
  // A shell within the Pod has its commands in one word.
  const shell = /^(?:ba|da|a)?sh -c$/.test(inner.slice(0, 2).join(' ')) ? inner[2] : undefined
  if (shell !== undefined) return isReading(unquoted(shell))
  return args.includes('--') && isReadingCommand(inner)
}
