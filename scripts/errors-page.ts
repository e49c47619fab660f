/** docs/errors.md: the same text as the page that the API serves at /docs/errors. */
import { ERROR_MEANINGS, type ErrorCode, ERRORS } from '@static/protocol'

/** The whole page. Each heading is an error code, so `#<code>` links to it. */
export function errorsMarkdown(): string {
  const sections = Object.entries(ERRORS).map(
    ([code, { title, family, status, retryable, help }]) => `
## ${code}

**${title}.** ${ERROR_MEANINGS[code as ErrorCode]}

- What to do: ${help}
- Try again? ${retryable ? 'Yes: the same call can succeed later.' : 'No: something has to change first.'}
- \`${family}\`, HTTP ${status}
`,
  )
  return `<!-- Made by \`npm run gen\` from packages/protocol/src/errors/table.ts and meanings.ts: change those. -->

# Errors

Programs switch on \`code\`; the texts may change. Every error says where to read on: \`doc_url\` (\`docUrl\` in TypeScript,
\`type\` in an answer of the API) is the page \`/docs/errors#<code>\` of the API that is used, with the same words as here.
${sections.join('')}`
}
