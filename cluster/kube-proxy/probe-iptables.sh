iptables-save -t nat >/dev/null 2>&1 || { echo 'iptables nat table (module iptable_nat or nft_chain_nat)'; exit 3; }
