import { programText } from '../../../host/program-text.ts'
import { coredns } from './coredns.ts'
import { type ProcessImage, registerImage } from './registry.ts'

const wait = 'trap "exit 0" TERM INT; sleep infinity & wait'

/**
 * Everything the guest has. It is a shell if its input is open, as for `kubectl debug -it`, else it
 * waits until it is stopped.
 */
const tools: ProcessImage = {
  names: [
    'tools',
    'nicolaka/netshoot',
    'busybox',
    'alpine',
    'debian',
    'ubuntu',
    'curlimages/curl',
    'wbitt/network-multitool',
    'praqma/network-multitool',
    'registry.k8s.io/e2e-test-images/jessie-dnsutils',
  ],
  // busybox 1.36, alpine 3.20, debian 12 or bookworm-slim, ubuntu 24.04 or noble, curl 8.5.0,
  // netshoot v0.13 …
  tags: /^(v?([0-3]|[78]|1\d|2\d)(\.\d{1,2}){0,2}|stable|edge|bullseye|bookworm|trixie|focal|jammy|noble|extra|minimal)(-(slim|musl|glibc|uclibc))?$/,
  about:
    'a shell with curl, dig, ip, ss, tcpdump, conntrack, iptables, socat; also as busybox or nicolaka/netshoot',
  command: ['sh', '-c', `if [ -t 0 ] || [ -S /proc/self/fd/0 ]; then exec bash; fi; ${wait}`],
}

const nginxConf = `user root;
worker_processes 1;
error_log stderr notice;
pid /run/nginx.pid;
events { worker_connections 512; }
http {
  types { text/html html; text/css css; application/javascript js; text/plain txt; }
  default_type application/octet-stream;
  access_log /dev/stdout combined;
  client_body_temp_path /tmp/nginx-body;
  proxy_temp_path /tmp/nginx-proxy;
  fastcgi_temp_path /tmp/nginx-fastcgi;
  uwsgi_temp_path /tmp/nginx-uwsgi;
  scgi_temp_path /tmp/nginx-scgi;
  keepalive_timeout 65;
  include /etc/nginx/conf.d/*.conf;
}
`

/**
 * A page with the names of the Pod and the node and the client's address, unless the Pod has an
 * index.html.
 */
function site(pod: string, node: string, podIP: string): string {
  return `server {
  listen 80;
  server_name localhost;
  root /usr/share/nginx/html;
  index index.html;
  location = / { try_files /index.html @pod; }
  location / { try_files $uri $uri/ =404; }
  location @pod {
    default_type text/plain;
    return 200 "Pod: ${pod}\\nNode: ${node}\\nPod IP: ${podIP}\\nClient: $remote_addr\\n";
  }
}
`
}

/**
 * The real nginx. Its configuration has the same paths as in the official image, and can also be
 * replaced by a volume.
 */
const nginx: ProcessImage = {
  names: ['nginx'],
  tags: /^(1|1\.(1\d|2\d)(\.\d{1,2})?|stable|mainline)(-(alpine|bookworm|perl|otel)(-(slim|perl|otel))?)?$|^(alpine|bookworm|perl)(-slim|-perl)?$/,
  about: 'the real nginx on port 80',
  command: ['nginx', '-g', 'daemon off;'],
  stopSignal: 'SIGQUIT',
  serving: /start worker process /,
  emptyFolders: ['/usr/share/nginx/html'],
  files: ({ pod, node, podIP }) => [
    { path: '/etc/nginx/nginx.conf', content: nginxConf },
    { path: '/etc/nginx/conf.d/default.conf', content: site(pod.metadata.name, node, podIP) },
  ],
}

// Perl is part of every Debian and Ubuntu. One process that answers itself avoids the fork that
// socat needs for each datagram and connection.
const server = programText('embedded/kubelet/images/echo-server.pl')

/**
 * Answers every datagram, and every chunk of a TCP stream, with the Pod's name, the client's
 * address and the data.
 */
const echo: ProcessImage = {
  names: ['echo'],
  tags: /^v?\d+(\.\d+){0,2}$/,
  about:
    'echoes TCP and UDP on port 8080 or $PORT, with the name of the Pod and the address of the client',
  command: ['perl', '/usr/local/bin/echo-server'],
  serving: /listening on port/,
  files: () => [{ path: '/usr/local/bin/echo-server', content: server, mode: 0o755 }],
}

/** Registers the images that are part of the kubelet; kube-proxy's is registered separately. */
export function registerOwnImages(): void {
  for (const image of [nginx, tools, echo, coredns]) registerImage(image)
}
