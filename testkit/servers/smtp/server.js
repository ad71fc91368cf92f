'use strict'

// MailDev with what its command line does not offer: STARTTLS, a mail that is confirmed only once it is in its file,
// and mailboxes that answer what their name says: answer-450@… at once, data-552@… after the content.

const fs = require('fs')
const path = require('path')
const { PassThrough } = require('stream')
const MailDev = require('maildev')

const options = JSON.parse(process.argv[2])
const maildev = new MailDev(options)
const smtp = maildev.smtp

smtp.options.hideSTARTTLS = false
smtp.options.disabledCommands = options.incomingUser ? [] : ['AUTH']

// A client that goes away in the middle is part of the tests, and no reason to end.
smtp.removeAllListeners('error')
smtp.on('error', () => {})

const asked = (address, when) => {
  const found = new RegExp(`^${when}-(\\d{3})`).exec(address)
  return found && Object.assign(new Error('as the mailbox is called'), { responseCode: Number(found[1]) })
}

smtp.onRcptTo = (address, session, callback) => callback(asked(address.address, 'answer'))

const take = smtp.onData
smtp.onData = (stream, session, callback) => {
  const refused = asked(session.envelope.rcptTo[0].address, 'data')
  if (refused) {
    stream.on('end', () => callback(refused))
    stream.resume()
    return
  }
  // MailDev begins to read when its file is open. What flows before that must be kept, or it would be lost.
  let bytes = 0
  const kept = new PassThrough()
  stream.on('data', chunk => { bytes += chunk.length })
  stream.pipe(kept)
  take(kept, session, (error, text) => {
    const id = String(text).split(' ').pop()
    const file = path.join(options.mailDirectory, `${id}.eml`)
    const written = () => fs.statSync(file).size >= bytes ? callback(error, text) : setTimeout(written, 1)
    written()
  })
}

maildev.listen()
