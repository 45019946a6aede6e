nft_tables() {
  command -v nft >/dev/null || return 127
  [ -z "${nft_names+read}" ] || return 0
  # The embedded kernel (UML) has nf_tables as a module: until that is loaded, which nft would do, there is no table.
  if [ -e /sys/module/virtio_uml ] && [ ! -e /sys/module/nf_tables ]; then nft_names=; else nft_names=$(nft list tables); fi
}
nft_table() {
  nft_tables || return
  case "$nft_names
" in *"table $1 $2
"*) nft -j list table "$1" "$2" ;; *) return 1 ;; esac
}
nft_others() {
  nft_tables || return
  # A pipeline is two forks, a tenth of the whole report on the embedded kernel.
  [ -n "$nft_names" ] || return 0
  printf '%s
' "$nft_names" | while read -r word family name; do
    case "$family $name" in
      'ip kube-proxy' | 'ip6 kube-proxy') ;;
      'ip filter' | 'ip nat' | 'ip mangle' | 'ip raw' | 'ip security') ;;
      'ip6 filter' | 'ip6 nat' | 'ip6 mangle' | 'ip6 raw' | 'ip6 security') ;;
      'ip '* | 'ip6 '* | 'inet '*) nft -j list table "$family" "$name" ;;
    esac
  done
}
