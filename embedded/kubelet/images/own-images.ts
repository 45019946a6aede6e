import { coredns } from './coredns.ts'
import { echo } from './echo.ts'
import { nginx } from './nginx.ts'
import { registerImage } from './registry.ts'
import { pause, tools } from './tools.ts'

/** The images that are part of the kubelet; kube-proxy's comes from elsewhere. */
export function registerOwnImages(): void {
  for (const image of [nginx, tools, echo, pause, coredns]) registerImage(image)
}
