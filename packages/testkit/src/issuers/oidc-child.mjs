// An OIDC issuer as its own process: `oidc-provider` behind TLS, as https://idp.example. Its clients get tokens for any
// audience, which CI systems and clouds give out under other names. Reads its certificate from stdin and prints its port.
import { createServer } from 'node:https'
import { text } from 'node:stream/consumers'
import Provider from 'oidc-provider'

const { cert, key } = JSON.parse(await text(process.stdin))
const provider = new Provider('https://idp.example', {
  clients: [
    {
      client_id: 'billing',
      client_secret: 'only-for-tests',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, audience) => ({
        audience,
        scope: '',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  formats: {
    customizers: {
      // An identity token, as CI systems issue; `access=1` leaves it an access token.
      jwt: ({ req }, _token, jwt) => {
        if (!req.url.includes('access=1')) jwt.header = { ...jwt.header, typ: 'JWT' }
      },
    },
  },
})
const server = createServer({ cert, key }, provider.callback())
server.listen(0, '127.0.0.1', () => process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`))
