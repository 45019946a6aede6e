import { expect, test } from 'vitest'
import { CommandLog } from '../../guide/server/command-log.ts'
import { isReading } from '../../guide/server/reading-command.ts'

/** Commands as `[terminal, text, start, end]` in seconds. */
function logOf(...commands: [string, string, number, number?][]): CommandLog {
  const log = new CommandLog()
  for (const [terminal, text, start, end] of commands) {
    log.started(terminal, text, start * 1000)
    if (end !== undefined) log.ended(terminal, end * 1000)
  }
  return log
}
const between = (log: CommandLog, from: number, to: number) => log.culprit(from * 1000, to * 1000)

test('four commands in a row: each has its own changes, also those that kube-proxy makes later', () => {
  const log = logOf(
    ['t1', 'make web', 0, 5],
    ['t1', 'kubectl get pods -o wide', 6, 7],
    ['t1', 'kubectl apply -f crowd.yaml', 10, 11],
    ['t1', 'make check-2 STEP=web', 11, 13],
    ['t1', 'make flush-nat', 20, 24],
    ['t1', 'curl -s 10.96.1.2', 25, 26],
  )
  expect(between(log, 4, 6)).toBe('make web')
  expect(between(log, 5.5, 6.5)).toBe('make web')
  expect(between(log, 11.5, 12)).toBe('kubectl apply -f crowd.yaml')
  expect(between(log, 21, 22)).toBe('make flush-nat')
  expect(between(log, 24.5, 26)).toBe('make flush-nat')
  expect(between(log, 45, 46)).toBe('after make flush-nat')
  expect(between(log, 120, 121)).toBeUndefined()
})

test('several at once: it is not known which', () => {
  const log = logOf(['t1', 'make ipvs', 0], ['t2', "make exec CMD='iptables -F'", 2, 3])
  expect(between(log, 1, 4)).toBe("while make ipvs and make exec CMD='iptables -F' ran")
  expect(between(log, 3.5, 4)).toBe('make ipvs')
})

test('a shell that does not report ends: the next command of the terminal ends the one before; one of unknown text, too', () => {
  const log = logOf(['t1', 'make ipvs', 0])
  log.started('t1', undefined, 9000)
  expect(between(log, 8, 8.5)).toBe('make ipvs')
  expect(between(log, 30, 31)).toBe('after make ipvs')
  expect(new CommandLog().culprit(0, 1)).toBeUndefined()
})

test.each([
  'kubectl get pods -A',
  'kubectl -n kube-system logs -l app=web',
  'kubectl exec client -- curl -s web',
  'kubectl get nodes -o wide | grep worker; echo done',
  "make exec CMD='iptables -t nat -S KUBE-SERVICES | grep -c x'",
  'make exec NODE=$NODE CMD="conntrack -L; ipvsadm -Ln"',
  'make -s check-2 STEP=web',
  'eval "$(make -s env)"',
  "WEB=$(kubectl get service web -o jsonpath='{.spec.clusterIP}')",
  'iptables -t nat -nvL KUBE-SERVICES',
  'ip -d addr show kube-ipvs0',
  'ipset list KUBE-CLUSTER-IP',
  'nft list table ip kube-proxy',
  'ipt KUBE-SERVICES',
  'WORKER=k8s-guide-worker',
  'echo "a) $(date)" ; kubectl get pods',
  'watch -n 1 kubectl get pods',
  'cat <(kubectl get pods) <(kubectl get nodes)',
  'eval "kubectl get pods"',
  "kubectl exec client -- sh -c 'curl -s web; date'",
  'A=1 B="$(kubectl get nodes | head -n $(echo 2))" kubectl get pods >/tmp/pods 2>&1',
  "kubectl get pods -o jsonpath='{.items[*].metadata.name} $(rm -r /)'",
])('"%s" only reads', (line) => {
  expect(isReading(line)).toBe(true)
})

test.each([
  'kubectl apply -f x.yaml',
  'kubectl delete service web',
  'kubectl exec web -- rm x',
  'kubectl get pods && kubectl delete pods --all',
  'make web',
  'make ipvs',
  "make exec CMD='iptables -t nat -F'",
  "make exec CMD='iptables -S; ipset flush KUBE-CLUSTER-IP'",
  'X=$(kubectl create deployment x --image=nginx)',
  'iptables -I INPUT -j DROP',
  'ip addr del 10.96.0.1/32 dev kube-ipvs0',
  'ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:443',
  'ipvsadm -E -t 10.96.0.1:443 -s lc',
  'conntrack -F',
  'nft delete table ip kube-proxy',
  'sysctl -w net.ipv4.vs.conntrack=0',
  './something.sh',
  'echo $(kubectl delete pod x)',
  'cat <(kubectl delete pod x)',
  'eval "kubectl delete pod x"',
  'eval kubectl delete pod x',
  'test.sh',
  'kubectl auth reconcile -f x.yaml',
  'echo `kubectl delete pod x`',
  'echo "$(kubectl delete pod x)"',
  'echo "a)" ; kubectl delete pod x',
  'echo "a\\" ; kubectl get x" ; kubectl delete pod x',
  "make exec CMD='echo 1 > /proc/sys/net/ipv4/vs/conntrack'",
  'watch kubectl delete pod x',
  'kubectl get pods $(ip link del kube-ipvs0)',
  'kubectl get pods\nkubectl delete pod x',
  'kubectl get pods & kubectl delete pod x',
  '(kubectl delete pod x)',
  "kubectl exec client -- sh -c 'rm x'",
  'kubectl exec client',
  'B="$(kubectl get nodes $(kubectl delete pod x))" true',
])('"%s" can change something', (line) => {
  expect(isReading(line)).toBe(false)
})
