import type { Cluster } from '../cluster/driver.ts'
import { runOnNode } from '../cluster/node-script.ts'

/**
 * Takes out every rule with that comment, whatever its chain; iptables-save prints it with quotes where it has spaces. Mostly there
 * is none, and one program says so.
 */
const script = `
case $(iptables-save) in *"--comment $1"* | *"--comment \\"$1"*) ;; *) exit ;; esac
for table in raw mangle nat filter; do
  rules=$(iptables-save -t $table 2>/dev/null | grep -E -- "--comment \\"?$1([^0-9]|$)" | sed 's/^-A/-D/')
  [ -z "$rules" ] || printf '*%s\\n%s\\nCOMMIT\\n' "$table" "$rules" | iptables-restore --noflush
done`

/** Removes on every node the rules that a lab's text has the reader write: those whose comment begins with `lab-N`. */
export async function removeLabRules(cluster: Cluster, lab: number): Promise<void> {
  await Promise.all((await cluster.nodes()).map((node) => runOnNode(cluster, node, script, { args: [`lab-${lab}`] })))
}
