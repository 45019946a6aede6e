import { compareModes } from './bench/live-cluster.ts'
import { createProgress } from './host/progress.ts'
await compareModes(['uml', 'host'], createProgress())
