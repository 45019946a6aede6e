// Every command in labs/07-before-and-after/README.md is typed, in order, and works. Without NAT in
// nf_tables there is no map to count.

import { typeText } from './typed-text.ts'

await typeText(7, /Error: No such file or directory[\s\S]*service-ips|mode nftables can't run here/)
