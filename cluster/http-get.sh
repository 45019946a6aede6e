http_get() {
  if command -v perl >/dev/null; then perl -e "$http_get_program" -- "$@"
  else curl -sS --fail --max-time "$4" "http://$1:$2$3"; fi
}
