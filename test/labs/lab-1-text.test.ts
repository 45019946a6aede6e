// Every command in labs/01-iptables/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(1)
