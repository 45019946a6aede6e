# Starts a program in its working directory: container-start.sh BEGUN MISSING FOLDER PROGRAM [ARGUMENT …]
# BEGUN is printed once all namespaces exist, MISSING if there is no such program.
begun=$1 missing=$2
shift 2
{ cd "$1" 2>/dev/null || { mkdir -p "$1" && cd "$1"; }; } || cd /
shift
command -v -- "$1" >/dev/null || { echo "$missing"; exit 128; }
echo "$begun"
exec "$@"
