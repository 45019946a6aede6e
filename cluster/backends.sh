case $(iptables --version 2>/dev/null) in *nf_tables*) node=nft ;; *legacy*) node=legacy ;; *) node= ;; esac
echo "${backend:-$node} $node"
