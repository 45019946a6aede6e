import { X509Certificate } from 'node:crypto'
import { expect, test } from 'vitest'
import { createServerTls, serverNames } from '../../apiserver/certificate.ts'

test('the server certificate is its own authority and names every address', () => {
  const cert = new X509Certificate(createServerTls().cert)
  expect(cert.ca).toBe(true)
  expect(cert.verify(cert.publicKey)).toBe(true)
  for (const name of serverNames) {
    const named = /^[\d.]+$/.test(name) ? cert.checkIP(name) : cert.checkHost(name)
    expect(named, name).toBe(name)
  }
  expect(cert.checkHost('example.com')).toBeUndefined()
  expect(Date.parse(cert.validTo)).toBeGreaterThan(Date.now() + 9 * 365 * 24 * 3600 * 1000)
  expect(cert.verify(new X509Certificate(createServerTls().cert).publicKey)).toBe(false)
})
