// Every command in labs/05-exposure/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(5)
