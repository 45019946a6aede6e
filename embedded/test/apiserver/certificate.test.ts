import { X509Certificate } from 'node:crypto'
import { expect, test } from 'vitest'
import { createServerTls, serverNames } from '../../apiserver/certificate.ts'

test('the server certificate is signed by its authority and names every address', () => {
  const tls = createServerTls()
  const [ca, cert] = [new X509Certificate(tls.ca), new X509Certificate(tls.cert)]
  expect(ca.ca).toBe(true)
  expect(cert.ca).toBe(false)
  expect(cert.verify(ca.publicKey)).toBe(true)
  expect(cert.checkIssued(ca)).toBe(true)
  for (const name of serverNames) {
    const named = /^[\d.]+$/.test(name) ? cert.checkIP(name) : cert.checkHost(name)
    expect(named, name).toBe(name)
  }
  expect(cert.checkHost('example.com')).toBeUndefined()
  expect(Date.parse(cert.validTo)).toBeGreaterThan(Date.now() + 9 * 365 * 24 * 3600 * 1000)
})

test('another authority did not sign it', () => {
  const cert = new X509Certificate(createServerTls().cert)
  expect(cert.verify(new X509Certificate(createServerTls().ca).publicKey)).toBe(false)
})
