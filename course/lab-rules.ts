import type { Cluster } from '../cluster/driver.ts'
import { PATH } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'

/**
 * Deletes every rule whose comment matches $1, in all chains of both families; iptables-save prints quotes around a comment
 * with spaces. A learner writes rules through the node's own iptables or through one of its back ends, so all of them are read.
 * Only a legacy iptables is not started where the kernel lists no table of its family: the list knows nothing of nf_tables.
 */
const script = `${PATH}
match="--comment \\"?($1)([^0-9a-z]|$)"
for family in iptables ip6tables; do
  own=$(command -v "$family-save")
  tools=$family
  [ -n "$own_iptables" ] || tools="$family $family-legacy $family-nft"
  for tool in $tools; do
    command -v "$tool-save" >/dev/null || continue
    if [ "$tool" = "$family-legacy" ] || [ "$own" -ef "\${own%-save}-legacy-save" ] && [ "$tool" != "$family-nft" ]; then
      names=/proc/net/\${family%tables}_tables_names
      [ ! -e $names ] || read -r table <$names || continue
    fi
    "$tool-save" 2>/dev/null | grep -qE -- "$match" || continue
    for table in raw mangle nat filter; do
      rules=$("$tool-save" -t $table 2>/dev/null | grep -E -- "$match" | sed 's/^-A/-D/')
      [ -z "$rules" ] || printf '*%s\\n%s\\nCOMMIT\\n' "$table" "$rules" | "$tool-restore" --noflush
    done
  done
done
true`

/** Removes on every node the rules that labs' texts have the reader write: those with one of these words as comment, or `WORD-…`. */
export async function removeRules(cluster: Cluster, comments: readonly string[]): Promise<void> {
  if (comments.length === 0) return
  const args = [comments.join('|')]
  await Promise.all((await cluster.nodes()).map((node) => runOnNode(cluster, node, script, { args })))
}
