import { gitVersion } from './documents.ts'

/** The minor version that this cluster emulates. */
const clusterMinor = Number(gitVersion.split('.')[1])

/** The values of spec.trafficDistribution, with the minor version that has them by default. */
const distributionSince: Record<string, number> = {
  // KEP-4444: beta in 1.31, GA in 1.33.
  PreferClose: 31,
  // KEP-3015: beta in 1.34, GA in 1.35. PreferSameZone is PreferClose under a clearer name.
  PreferSameZone: 34,
  PreferSameNode: 34,
}

/** The values that an API server of this minor version accepts. */
export const trafficDistributions = (minor = clusterMinor): string[] =>
  Object.keys(distributionSince).filter((value) => minor >= (distributionSince[value] ?? 0))
