// Every command in labs/10-connections/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(10)
