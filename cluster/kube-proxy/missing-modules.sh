for module; do
  has_module "$module" || grep -qs "/$module\.ko" "/lib/modules/$(uname -r)/modules.dep" || echo "$module"
done
