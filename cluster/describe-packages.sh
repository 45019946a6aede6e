dpkg --print-architecture
. /etc/os-release && echo "$ID $VERSION_ID $VERSION_CODENAME"
cd / && for path in "$@" var/lib/dpkg/status; do [ -e "$path" ] && echo "$path"; done | tar -chf - -T - | base64 -w 0
