scheduler=$1; missing=
for module in ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh "ip_vs_$scheduler" nf_conntrack ip_set xt_set dummy; do
  [ -d "/sys/module/$module" ] || missing="$missing $module"
done
[ -z "$missing" ] || modprobe -a $missing >/dev/null 2>&1
[ -e /proc/net/ip_vs ] || { echo 'IPVS (module ip_vs)'; exit 3; }
if command -v ipvsadm >/dev/null; then
  output=$(printf '%s\n' "-A -t 198.51.100.0:20000 -s $scheduler" '-D -t 198.51.100.0:20000' | ipvsadm -R 2>&1)
  [ -z "$output" ] || { echo 'IPVS scheduler "'"$scheduler"'" (module ip_vs_'"$scheduler)"; exit 3; }
else
  has_module "ip_vs_$scheduler" || { echo 'IPVS scheduler "'"$scheduler"'" (module ip_vs_'"$scheduler)"; exit 3; }
fi
if command -v ipset >/dev/null; then ipset list -n >/dev/null 2>&1; else has_module ip_set; fi ||
  { echo 'ipset (module ip_set)'; exit 3; }
