// Bundles every script of this folder for start.mjs:  bundle-scripts.ts FOLDER
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { bundleTogether } from '../host/bundle.ts'

const [folder = ''] = process.argv.slice(2)
const scripts = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.ts'))
await bundleTogether(
  scripts.map((name) => join(import.meta.dirname, name)),
  folder,
)
