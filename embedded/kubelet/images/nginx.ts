import type { ProcessImage } from './registry.ts'

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

/** A page that says where it came from and for whom, unless somebody puts an index.html in its place. */
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

/** The real nginx. Its configuration is where the official image has it, and may be mounted over in the same way. */
export const nginx: ProcessImage = {
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
