/**
 * The probe that does not count what the others count: probes can be compared only if each asks for the same packets, new
 * connections to one port. Undefined when all do.
 */
export function mismatchedProbe<Hook extends string>(
  probes: ReadonlyMap<Hook, string>,
  port: number,
): { hook: Hook; spec: string } | undefined {
  const specs = [...probes.values()]
  const count = (spec: string) => specs.filter((other) => other === spec).length
  const usual = specs.toSorted((one, other) => count(other) - count(one))[0]
  for (const [hook, spec] of probes)
    if (spec !== usual || !` ${spec} `.includes(` --dport ${port} `)) return { hook, spec }
  return undefined
}
