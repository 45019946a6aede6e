import type { CheckContext } from '../../grading/check-context.ts'
import { mustEqualPrediction } from '../../grading/difference-report.ts'
import { configOf } from '../../grading/evaluate.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'

const NOTE = 'scheduler-chosen'
const DEFAULT = 'rr'

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '' && value !== DEFAULT

/** kube-proxy was given another scheduler than rr, and every virtual server had it. */
export function schedulerChosen({ snapshot, nodes, notes, live }: CheckContext): void {
  if (notes.read(NOTE, isName)) return
  const { scheduler } = configOf(snapshot).ipvs
  if (scheduler === DEFAULT && !live) throw new NotApplicable('every virtual server had rr when this capture was taken')
  if (scheduler === DEFAULT)
    fail({
      look: "kubectl -n kube-system get configmap kube-proxy -o yaml | grep 'scheduler:'",
      expected: "another scheduler than rr in kube-proxy's configuration",
      actual: 'rr, the default',
      hint: 'make ipvs SCHEDULER=lc',
    })
  mustEqualPrediction(nodes, {
    mode: 'ipvs',
    concerns: (where) => 'virtualServer' in where,
    look: 'ipvsadm -Ln',
    expected: `${scheduler} on every virtual server`,
  })
  notes.keep(NOTE, scheduler)
}
