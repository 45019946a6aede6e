import type { Cluster } from '../cluster/driver.ts'
import { runOnNode } from '../cluster/node-script.ts'

/**
 * Takes out every rule whose comment matches $1, whatever its chain and family; iptables-save prints a comment with quotes where it
 * has spaces. Mostly there is none, and one program of each family that is in use says so: the legacy kernel names the tables that are.
 */
const script = `
for family in iptables ip6tables; do
  names=/proc/net/\${family%tables}_tables_names
  [ ! -e $names ] || read -r table <$names || continue
  "$family-save" 2>/dev/null | grep -qE -- "--comment \\"?($1)([^0-9a-z]|$)" || continue
  for table in raw mangle nat filter; do
    rules=$("$family-save" -t $table 2>/dev/null | grep -E -- "--comment \\"?($1)([^0-9a-z]|$)" | sed 's/^-A/-D/')
    [ -z "$rules" ] || printf '*%s\\n%s\\nCOMMIT\\n' "$table" "$rules" | "$family-restore" --noflush
  done
done
true`

/** Removes on every node the rules that labs' texts have the reader write: those with one of these words as comment, or `WORD-…`. */
export async function removeRules(cluster: Cluster, comments: readonly string[]): Promise<void> {
  if (comments.length === 0) return
  const args = [comments.join('|')]
  await Promise.all((await cluster.nodes()).map((node) => runOnNode(cluster, node, script, { args })))
}
