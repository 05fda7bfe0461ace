/** A real SMTP server on this machine, without TLS, that keeps what it gets. */
import { SMTPServer } from 'smtp-server';

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** By lower-case name, unfolded and decoded. */
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly raw: string;
}

export interface MailServer {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** Names under which clients signed in. */
  readonly users: readonly string[];
  connections(): number;
  /** Connections of now. */
  open(): number;
  /** Answers with this code where a mail is for this address; undefined takes it. */
  refuse(address: string, code: number | undefined): void;
  /**
   * Takes mails, and breaks the connection off instead of answering, or says nothing. `early`: breaks it off before
   * there is a mail.
   */
  loseAnswers(isLosing: boolean | 'silent' | 'early'): void;
  become(state: 'busy' | 'refusing' | 'well'): void;
  close(): Promise<void>;
}

const CODES = { busy: 451, refusing: 554 } as const;

export async function startMailServer(): Promise<MailServer> {
  const mails: ReceivedMail[] = [];
  const users: string[] = [];
  let state: 'busy' | 'refusing' | 'well' = 'well';
  let connections = 0;
  let loses: boolean | 'silent' | 'early' = false;
  const breakOff = (): void => {
    for (const { _socket } of server.connections) _socket.destroy();
  };
  const refused = new Map<string, number | undefined>();
  const server = new SMTPServer({
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    authOptional: true,
    disableReverseLookup: true,
    onConnect: (_, done) => {
      connections += 1;
      done();
    },
    onAuth: ({ username = '' }, _, done) => {
      users.push(username);
      done(null, { user: username });
    },
    onRcptTo: ({ address }, _, done) => {
      if (loses === 'early') return breakOff();
      const responseCode = refused.get(address);
      done(responseCode === undefined ? null : Object.assign(new Error('told to nobody'), { responseCode }));
    },
    onData: (stream, { envelope }, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        if (state !== 'well') return done(Object.assign(new Error('told to nobody'), { responseCode: CODES[state] }));
        const raw = Buffer.concat(chunks).toString('utf8');
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), raw, ...partsOf(raw) });
        if (loses === false) return done();
        if (loses === true) breakOff();
      });
    },
  });
  // Clients that stop in mid-talk are part of the tests.
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const at = server.server.address();
  if (at === null || typeof at === 'string') throw new Error('the mail server has no port');
  let closed: Promise<void> | undefined;
  return {
    port: at.port,
    mails,
    users,
    connections: () => connections,
    open: () => server.connections.size,
    refuse: (address, code) => void refused.set(address, code),
    loseAnswers: (isLosing) => {
      loses = isLosing;
    },
    become: (next) => {
      state = next;
    },
    close: async () => {
      closed ??= new Promise((resolve) => server.close(resolve));
      await closed;
    },
  };
}

function partsOf(raw: string): Pick<ReceivedMail, 'headers' | 'text'> {
  const end = raw.indexOf('\r\n\r\n');
  const lines = raw
    .slice(0, end)
    .replaceAll(/\r\n[ \t]+/g, ' ')
    .split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), decoded(line.slice(line.indexOf(':') + 2))]),
  );
  const body = raw.slice(end + 4).replaceAll('\r\n', '\n');
  const encoding = headers['content-transfer-encoding'];
  if (encoding === 'base64') return { headers, text: Buffer.from(body, 'base64').toString('utf8') };
  return { headers, text: encoding === 'quoted-printable' ? unquoted(body.replaceAll('=\n', '')) : body };
}

function unquoted(text: string): string {
  const bytes = text.replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** Decodes RFC 2047's words. */
function decoded(value: string): string {
  return value
    .replaceAll(/\?=\s+=\?/g, '?==?')
    .replaceAll(/=\?utf-8\?([QB])\?([^?]*)\?=/gi, (_, kind: string, text: string) =>
      kind.toUpperCase() === 'B' ? Buffer.from(text, 'base64').toString('utf8') : unquoted(text.replaceAll('_', ' ')),
    );
}
