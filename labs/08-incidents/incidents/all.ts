import type { Incident } from '../../../checks/08-incidents/incident.ts'
import { missingMasquerade } from './missing-masquerade.ts'
import { selectorTypo } from './selector-typo.ts'
import { wrongPortName } from './wrong-port-name.ts'
import { wrongTargetPort } from './wrong-target-port.ts'

/** Every incident, those of one mode together. */
export const incidents: readonly Incident[] = [wrongTargetPort, selectorTypo, wrongPortName, missingMasquerade]
