backend=
if [ -z "$own_iptables" ]; then
  for comm in /proc/[0-9]*/comm; do
    { read -r name <"$comm"; } 2>/dev/null && [ "$name" = kube-proxy ] || continue
    pid=${comm#/proc/}
    case $(nsenter -t "${pid%/comm}" -m -- iptables --version 2>/dev/null) in
      *nf_tables*) backend=nft ;;
      *legacy*) backend=legacy ;;
    esac
    break
  done
  command -v "iptables-$backend-save" >/dev/null || backend=
  [ -n "$backend" ] || for chain in 'KUBE-SERVICES ' KUBE-; do
    for one in '' -legacy -nft; do
      case $("iptables$one-save" 2>/dev/null) in *":$chain"*) backend=${one#-}; break 2 ;; esac
    done
  done
fi
with_backend() {
  program=${1%-*}${backend:+-$backend}-${1#*-}; shift
  "$program" "$@"
}
