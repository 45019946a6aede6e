# Sets up the root of a guest on this machine's own kernel, behind lines that set (host-kernel.ts):
#   place        an empty folder
#   packages     the unpacked packages; `whole`, if not empty: they are a whole root file system, and no program of the machine is used
#   uid          the id of the guest's root user in the user namespace of this process
#   folders      the folders of programs that are real folders; `links`: those that are links
#   devices      names in /dev
#   fstab        the mounts on the root
#   confine      the program of confine.c in the guest
#   processes    how many processes and threads the guest may have
#   node, agent  the program that runs the agent, and the agent
set -e

# Copies files from folders that only the starting user may access.
fetch_files() {
  mount -t tmpfs -o mode=0755 tmpfs "$place"
  cd "$place"
  mkdir -p packages root
  mount -o bind,ro "$packages" packages
  for file; do install -D "$file" "root/$file"; done
  chown "$uid:$uid" .
  chown -R "$uid:$uid" root
}

# Makes the root, and becomes the agent in it.
run_agent() {
  cd "$place"
  # Only a mount can become the root.
  mount --bind root root
  for folder in $folders; do mkdir -p "upper$folder" "work$folder" "root$folder"; done
  (cd root && mkdir -p etc proc sys run mnt root tmp home opt var dev/pts && chmod 1777 tmp)
  for link in $links; do cp -P "${whole:+packages}$link" root/; done
  # Files that only root of the machine may read are none of the guest's.
  [ -n "$whole" ] || cp -r --preserve=mode,links /etc root/ 2>/dev/null || true
  cp -r packages/etc packages/var root/
  for name in $devices; do : >"root/dev/$name"; done
  ln -s pts/ptmx root/dev/ptmx
  printf '%s\n' "$fstab" >fstab
  mount -a -T fstab
  cd root
  pivot_root . mnt
  # Only now: until here, the programs of an offline archive are found by the PATH of its starters.
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
  umount -l mnt
  # If the legacy tables are not available, as on a kernel without ip_tables loaded, iptables uses nf_tables.
  for table in nat filter mangle; do
    chroot . iptables -t $table -S >/dev/null 2>&1 && continue
    for name in iptables ip6tables; do for form in '' -save -restore; do
      ln -sf xtables-nft-multi usr/sbin/$name$form
    done; done
    break
  done
  # Where memory runs out, the guest ends before the programs of its user.
  echo 1000 >/proc/self/oom_score_adj
  # Its first request loads ip_vs; behind --one-user nothing does.
  chroot . ipvsadm -Ln >/dev/null 2>&1 || true
  exec chroot . "$confine" --close 5 --keyring --processes "$processes" --one-user --no-keys -- /bin/sh -c '"$0" "$1"; exit' "$node" "$agent"
}
