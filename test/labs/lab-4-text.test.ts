// Every command in labs/04-lvs/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(4)
