/** Passwords of eight characters or more from the top of every published list of common passwords, in lower case. */
export const COMMON_PASSWORDS: ReadonlySet<string> = new Set(
  `
  00000000 000000000 0000000000 0123456789 10203040 102030405060 11111111 111111111 1111111111 11223344 1122334455
  112233445566 12121212 123123123 123321123 12341234 123412341234 12344321 1234512345 123454321 1234554321 12345678
  123456789 1234567890 1234567891 12345678910 123456789a 123456789q 12345678a 12345678q 1234567a 1234567q 123456aa
  123456abc 123456qwerty 12345qwert 1234abcd 1234asdf 1234qwer 123654789 123abc123 123password 123qwe123 123qweasd
  123qweasdzxc 13131313 135792468 147258369 159753456 19191919 1password 1q2w3e4r 1q2w3e4r5t 1q2w3e4r5t6y 1qaz2wsx
  1qaz2wsx3edc 20202020 246813579 27182818 31415926 314159265 321321321 55555555 66666666 741852963 77777777
  789456123 87654321 88888888 963852741 987654321 9876543210 987654321a 99999999 a1234567 a12345678 a123456789
  a1b2c3d4 a1b2c3d4e5 aa123456 aaaa1111 abc12345 abc123456 abc123abc abcabc123 abcd1234 abcdabcd abcdefgh abcdefghi
  abcdefghij access14 admin123 admin1234 admin12345 admin@123 adminadmin administrator alexander alexandra america1
  andrew123 angel123 anthony1 arsenal1 asdf1234 asdfasdf asdfghjk asdfghjkl asdfghjkl; asdfqwer ashley123 asshole1
  australia autumn2024 autumn2025 autumn2026 azertyui azertyuiop babygirl babygirl1 barcelona baseball baseball1
  basketball batman123 beautiful benjamin bitch123 blahblah blessed1 blink182 bonjour1 bonjour123 brasil123
  brazil123 budweiser bullshit buster123 butterfly california canada123 changeme changeme1 changeme123 charlie1
  charlie123 chelsea1 chocolate chocolate1 christian christopher computer computer1 contrasena contraseña cookie123
  corinthians corona123 correcthorsebatterystaple corvette cowboys1 creative crystal1 cupcake1 daniel123 december
  december1 default1 demo1234 deutschland diamond1 doudou123 dragon12 dragon123 eagles123 elizabeth eminem123
  estrella facebook facebook1 february1 ferrari1 flamengo florida1 flower123 football football1 forever1 forever21
  fortnite freedom1 friday123 fuckyou! fuckyou1 fuckyou123 geheim123 genesis1 germany1 gfhjkm123 ginger123 godisgood
  google123 guest123 guest1234 guitar123 hallo123 hallohallo harley123 haslo123 heaven123 heineken hello123
  hello1234 hellohello helloworld hockey123 hola1234 hunter123 ihateyou ilovegod iloveme1 iloveyou iloveyou!
  iloveyou1 iloveyou2 internet internet1 ironman1 january1 jasmine1 jennifer jessica1 jesus123 jesuschrist jonathan
  jordan123 jordan23 joshua123 juventus killer123 lakers24 letmein! letmein1 letmein123 lightning liverpool
  liverpool1 lkjhgfdsa login123 london123 love1234 lovelove loveme123 loveyou1 manchester mariposa marlboro
  master123 matthew1 mercedes metallica mexico123 michael1 michelle michigan microsoft midnight midnight1 minecraft
  minecraft1 mnbvcxz1 monday123 monkey123 motdepasse motherfucker mustang1 mypassword mysecret naruto123 newpassword
  newyork1 nicholas1 nintendo nirvana1 nopass123 nopassword nothing1 november1 october1 opensesame p4ssw0rd p@ssw0rd
  p@ssw0rd1 p@ssw0rd123 p@ssword pa$$w0rd pa$$word pa55word paris123 parol123 pass1234 pass@123 pass@word1 passpass
  passw0rd passw0rd1 password password! password0 password01 password1 password1! password10 password11 password12
  password123 password1234 password13 password2 password2024 password2025 password2026 password21 password22
  password3 password7 password9 password99 password@ passwords passwort passwort1 patricia pepper123 phoenix1
  platinum1 playstation poiuytre poiuytrewq pokemon1 pokemon123 polska123 porsche1 princess princess1 privet123
  pussy123 pwd12345 pword123 q1234567 q1w2e3r4 q1w2e3r4t5 qazwsx123 qazwsxedc qwe123qwe qweasdzxc qweasdzxc123
  qwer1234 qwerty!1 qwerty12 qwerty123 qwerty1234 qwerty12345 qwerty123456 qwerty78 qwertyqwerty qwertyui qwertyuio
  qwertyuiop rainbow1 ranger123 realmadrid roblox123 rockyou1 root1234 rootroot samantha1 samsung1 samsung123
  schatz123 scooter1 scorpio1 scorpion secret123 secret1234 senha123 shadow123 shopping slipknot snickers soccer123
  softball1 soleil123 spiderman spiderman1 spring2024 spring2025 spring2026 starbucks startrek starwars starwars1
  steelers stephanie strawberry summer123 summer2020 summer2021 summer2022 summer2023 summer2024 summer2025
  summer2026 sunshine sunshine1 superman superman1 sweetheart teamo123 temp1234 temporary tequiero test1234
  test12345 tester123 testing1 testing123 testtest texas123 thomas123 thunder1 toor1234 trinity1 trustno1 trustno11
  unicorn1 user1234 veronica victoria1 wachtwoord welcome! welcome1 welcome12 welcome123 welcome1234 welkom01
  welkom123 whatever whatever1 whatever12 windows1 windows10 winter123 winter2020 winter2021 winter2022 winter2023
  winter2024 winter2025 winter2026 wolverine yamaha123 yankees1 z1234567 zaq12wsx zaq12wsx1 zaq1zaq1 zxcvbnm,
  zxcvbnm1 zxcvbnm123
  `
    .trim()
    .split(/\s+/),
)
