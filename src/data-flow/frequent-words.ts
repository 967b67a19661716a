/**
 * Frequent words, which prove nothing on their own: a text that contains one of them may have it from anywhere. The most frequent
 * words of English prose, of messages and of addresses; words of fewer than three letters tell next to nothing anyway.
 */
const FREQUENT = `
able about above account across action active actual added address after again against ahead allow almost alone along already also
although always amount annual another answer anyone anything application apply april area around article asked attached attention
august available away back balance bank based because become been before began begin being believe below best better between bill
birthday board body book both branch bring budget building business call called came cannot card case cash category center change
changed channel check city class clear client close code come comment comments common community company complete confirm contact
content contract copy correct cost could country course create created credit current customer daily data date dates days dear december
default delete department description design detail details different direct director doing done down draft during each early easy
edit else email emails employee enough enter equal even evening event events ever every everyone everything example expense false
family february feedback feel file files final finance find fine first five folder follow following food form found four free friday
friend from full further future game general give given goes going good great group guest half hand happy hard have having head
health hello help here high history hold home hope hotel hour hours house however https idea important inbox include including info
information inside instead interest internal into invoice issue issues item items itself january jobs join july june just keep kind
know known large last late later latest lead learn least leave left less letter level life like limit line link list little live local
location long look looking love made mail main major make manager many march market matter maybe mean means medical meet meeting
meetings member members message messages middle might mind minute minutes miss mobile monday money month monthly more morning most move
much must name names near need needed never news next nice night none normal north note notes nothing notice november number october
offer office often okay once online only open option options order orders other others over overview owner page paid paper part
party past payment payments people perhaps person phone photo place plan planning please point policy position possible post power
present pressure previous price prices primary private problem process product profile program project projects provide public
purchase question questions quick quite random rate rating read ready real really reason receive received recent recipient record refund
regards related remember reminder rent reply report reports request required response restaurant result results return review right
role room rule said sale sales same saturday save schedule school search second secret section security seen send sender sent september
serve service services session several shall share shared short should show side since site size small smith social some someone something
soon south special standard start started state status stay step still stop store street student study style subject such sunday
support sure system table take taken talk task tasks team teams tell term test text than thank thanks that their them then there these
they thing things think this those though thought three through thursday ticket time times title today together told tomorrow tonight
took topic total transaction transfer travel trip true tuesday turn type under unit unread until update updated upon used user users
using usual value version very video view visit wait want week weekend weekly weeks welcome well went were west what when where whether
which while white whole will with within without wednesday word words work working world would write year years yesterday your yours
yourself zero
act add ago aid aim air all and any app are arm art ask bad bag ban bar bed bet big bit box boy bug bus but buy can car cat cup cut dad
day did die dog dry due ear eat end etc eur eye far fee few fit fix fly for fun gap gas get god got guy had has hat her hey hid him his
hit hot how ice ill its job key kid law lay led leg let lie log lot low mad man map may men mid mix mom net new nor not now odd off oil
old one our out own par pay per pet pie plz put ran raw red rid row run sad sat saw say sea see set sex she shy sir sit six sky son sub
sum sun tag tax tea ten the thx tie tip toe too top try two url usa usd use via war was way web wed who why win won yes yet you
mon tue thu fri jan feb mar apr jun jul aug sep oct nov dec com org edu gov api pdf csv txt jpg png doc
com org net html http index example gmail yahoo hotmail outlook icloud www
`;

export const FREQUENT_WORDS: readonly string[] = FREQUENT.trim().split(/\s+/);

/** Hosts of mail addresses that anybody can have: the host says nothing of an address. */
export const PUBLIC_MAIL: ReadonlySet<string> = new Set(
  `aol.com gmail.com gmx.de gmx.net googlemail.com hotmail.com icloud.com live.com mail.com mail.ru me.com msn.com outlook.com proton.me
protonmail.com qq.com web.de yahoo.com yandex.ru 163.com`.split(/\s+/),
);
