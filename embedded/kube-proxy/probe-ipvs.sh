command -v ipset >/dev/null || { echo 'no-ipset executable file not found in $PATH'; exit; }
# The module of a scheduler is loaded by the first virtual server that asks for it: then nothing is left to be tried.
[ -d "/sys/module/ip_vs_$1" ] && [ -d /sys/module/xt_set ] && [ -d /sys/module/dummy ] && { echo fine; exit; }
modprobe -qab ip_vs "ip_vs_$1" ip_set xt_set dummy 2>/dev/null
[ -e /proc/net/ip_vs ] || { echo no-ipvs; exit; }
error=$(ipset --version 2>&1) || { echo "no-ipset $error"; exit; }
said=$(printf '%s\n' "-A -t 198.51.100.0:20000 -s $1" '-D -t 198.51.100.0:20000' | ipvsadm -R 2>&1)
[ -z "$said" ] || { echo no-scheduler; exit; }
echo fine
