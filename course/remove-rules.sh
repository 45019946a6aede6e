match="--comment \"?($1)([^0-9a-z]|$)"
for family in iptables ip6tables; do
  own=$(command -v "$family-save")
  tools=$family
  [ -n "$own_iptables" ] || tools="$family $family-legacy $family-nft"
  for tool in $tools; do
    command -v "$tool-save" >/dev/null || continue
    if [ "$tool" = "$family-legacy" ] || [ "$own" -ef "${own%-save}-legacy-save" ] && [ "$tool" != "$family-nft" ]; then
      names=/proc/net/${family%tables}_tables_names
      [ ! -e $names ] || read -r table <$names || continue
    fi
    "$tool-save" 2>/dev/null | grep -qE -- "$match" || continue
    for table in raw mangle nat filter; do
      rules=$("$tool-save" -t $table 2>/dev/null | grep -E -- "$match" | sed 's/^-A/-D/')
      [ -z "$rules" ] || printf '*%s\n%s\nCOMMIT\n' "$table" "$rules" | "$tool-restore" --noflush
    done
  done
done
true
