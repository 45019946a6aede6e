# Prints the kernel's helper for modules and the modules that depend on ip_vs, and unloads them. Fails if ip_vs stays.
modules=
for folder in /sys/module/ip_vs_* /sys/module/xt_ipvs; do
  [ ! -d "$folder" ] || modules="$modules ${folder##*/}"
done
echo "$(cat /proc/sys/kernel/modprobe)$modules"
echo >/proc/sys/kernel/modprobe
for module in $modules ip_vs; do rmmod "$module" 2>/dev/null; done
[ ! -d /sys/module/ip_vs ]
