import { PassThrough, type Readable } from 'node:stream'
import type { LogRequest } from '../apiserver/node-backend.ts'
import type { LogBuffer, LogLine } from './log-buffer.ts'

/** The lines of a log that a request asks for, as `kubectl logs` gets them. */
export function logStream(log: LogBuffer, request: LogRequest): Readable {
  const out = new PassThrough()
  let left = request.limitBytes ?? Number.POSITIVE_INFINITY
  const write = ({ time, text }: LogLine) => {
    const bytes = Buffer.from(request.timestamps ? `${time} ${text}` : text)
    out.write(bytes.subarray(0, left))
    left -= bytes.length
  }
  const since = request.sinceSeconds === undefined ? 0 : Date.now() - request.sinceSeconds * 1000
  const recent = log.all().filter(({ milliseconds }) => milliseconds >= since)
  const wanted =
    request.tailLines === undefined ? recent : request.tailLines === 0 ? [] : recent.slice(-request.tailLines)
  for (const line of wanted) if (left > 0) write(line)
  if (!request.follow || log.ended || left <= 0) {
    out.end()
    return out
  }
  const stop = log.follow(
    (line) => {
      write(line)
      if (left <= 0) out.end()
    },
    () => out.end(),
  )
  out.on('close', stop)
  return out
}
