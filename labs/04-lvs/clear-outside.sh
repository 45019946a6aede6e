ip -force -batch - 2>/dev/null <<'END'
route del 192.0.2.0/24
route del 198.19.0.0/16
route del local 198.18.0.0/16 dev lo
END
true
