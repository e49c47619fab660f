/** How to make a browser trust the local certificate authority of `static up`. For everyone, signed in or not. */
import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Copy } from '../copy.tsx'
import { enterView } from '../view.ts'

const FINGERPRINT = 'openssl x509 -in ca.pem -noout -fingerprint -sha256'
const CHROME = 'certutil -A -d sql:$HOME/.pki/nssdb -n "Static local CA" -t C,, -i ca.pem'
const MACOS = 'security add-trusted-cert -k ~/Library/Keychains/login.keychain-db ca.pem'

export function Trust(): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => enterView('Browser warnings', heading.current), [])
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>
        Browser warnings
      </h1>
      <section class="card">
        <h2>Why the browser warns</h2>
        <p>
          <code>static up</code> creates its own certificate authority at the first start and adds it to no trust store.
          Until you do, browsers say that the connection is not private. Agents and the <code>static</code> command
          already use the authority’s file, so they need nothing.
        </p>
        <p>
          Skip the warning only if browser and server are on the same machine. From another machine, anyone in between
          could read your password: import the file <code>ca.pem</code> first. <code>static up</code> prints where it
          is. Get it from the operator, over a channel that you trust, and compare its fingerprint:
        </p>
        <Copy text={FINGERPRINT} what="fingerprint command" />
        <p>The authority’s certificate is limited to the names given at the first start of the server.</p>
      </section>
      <section class="card">
        <h2>Firefox</h2>
        <p>
          Settings → Privacy &amp; Security → View Certificates → Authorities → Import. Choose <code>ca.pem</code> and
          tick “Trust this CA to identify websites”.
        </p>
        <h2>Chrome and Chromium on Linux</h2>
        <p>
          Settings → Privacy and security → Security → Manage certificates → Custom → Import; or, with the package{' '}
          <code>libnss3-tools</code>:
        </p>
        <Copy text={CHROME} what="Chrome command" />
        <h2>Safari and Chrome on macOS</h2>
        <Copy text={MACOS} what="macOS command" />
        <h2>Edge and Chrome on Windows</h2>
        <p>
          Rename the file to <code>ca.crt</code>, open it, choose Install Certificate → Current User → Trusted Root
          Certification Authorities.
        </p>
        <p>Restart the browser. To undo it, delete the certificate in the same place.</p>
      </section>
    </>
  )
}
