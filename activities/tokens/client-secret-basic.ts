/**
 * `client_secret_basic` in the one form that every authorization server reads.
 *
 * Id and secret are form-encoded before base64 (RFC 6749 §2.3.1 and appendix B). oauth4webapi writes everything but letters and
 * digits as %XX, which only servers that decode can read; the form encoding proper leaves `-`, `.`, `_` and `*` as they are (URL
 * standard, application/x-www-form-urlencoded). Servers that decode get the same, and those that do not still know the ids and
 * secrets that most clients have.
 */
import type { ClientAuth } from 'oauth4webapi';

export function clientSecretBasic(clientSecret: string): ClientAuth {
  return (_, client, __, headers) => {
    headers.set('authorization', `Basic ${basicCredentials(client.client_id, clientSecret)}`);
  };
}

export function basicCredentials(clientId: string, clientSecret: string): string {
  return Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}
