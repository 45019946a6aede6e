// Every command in labs/03-from-outside/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(3)
