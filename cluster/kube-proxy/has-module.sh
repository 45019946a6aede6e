has_module() {
  [ -d "/sys/module/$1" ] || grep -qs "/$1\.ko" "/lib/modules/$(uname -r)/modules.builtin" ||
    grep -qsE "( |\[)$1(_[a-z_]+|\])" /proc/kallsyms
}
